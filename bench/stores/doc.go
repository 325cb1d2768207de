// Package stores compares the stores of spent tokens with each other, side by side
// on one machine and one disk. It has no code but in its tests, which start the
// servers they need:
//
//	make bench-stores        # the table of docs/stores.md, about five minutes
//	make bench-live          # a SQLite file with ten million live IDs
//
// Each call is one durable redemption, as a Guard makes it. IDs come in the order
// of their redemption, minted up to two minutes before, as people think for
// different times.
package stores
