// Package lab is a page in which the bindings of a request state are switched on
// and off, and the attacks that then get through are computed by minting and
// verifying real tokens in the browser (WebCrypto). The page is embedded; it asks
// nobody for anything.
//
// [Handler] serves it to the browsers of this machine. [Export] writes it for any
// static web server; browsers give a page WebCrypto on localhost and over HTTPS
// only. The files under page are plain JavaScript modules with types in comments,
// which tsc --checkJs reads: there is no build step.
package lab
