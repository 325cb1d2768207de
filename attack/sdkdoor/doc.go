// Package sdkdoor takes the battery to a small server of the MCP Go SDK that is
// protected by package mcpsdk, in this process: over stateless HTTP, over pipes
// as on stdio, and as clients of older protocol versions reach it. Its tool, its
// prompt and its resource all ask before they act, so that each of the three
// kinds of calls can be attacked.
package sdkdoor
