// Package storagejanitor is an MCP server with a destructive tool: it lists and
// purges the objects of a bucket, and purges only what a person has confirmed.
//
// It shows how a tool asks and acts behind foil. The first call of
// purge_objects plans: it finds the objects, parks the exact list as a claim
// check and asks. The state that travels through the client holds the claim and
// what the question said, never the list. The retry compares the answer with the
// question, redeems the claim and deletes the objects of that list and no
// others: not those that came later, and not those that changed after the
// person saw them.
//
// The tools keep no state between calls, so the retry may reach another replica.
// They rely on the middleware of package mcpsdk, which must be installed once on
// the same server:
//
//	janitor, err := storagejanitor.New(&storagejanitor.Options{Bucket: dir, Claims: claims})
//	janitor.Register(server)
//	server.AddReceivingMiddleware(mcpsdk.Protect(guard, nil))
//
// With a ledger and [SettlePolicy] the retry of a purge that was cut off finishes
// it: each deletion is a step that is written down.
//
// With Options.PlanInState the list is in the state instead, for servers whose
// states may be read; it is then as short as a token has to be.
//
// A bucket is a directory, and an object a regular file in it or below, named by
// its path with slashes. See [Bucket].
package storagejanitor
