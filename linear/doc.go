// Package linear holds tests and no code: several processes use the stores at once,
// on few keys, and write down when each call began and returned. A checker then looks
// for an order of all calls, in keeping with those times, in which a store that does
// one thing after the other gives the same answers.
//
// Times are the machine's monotonic clock, which is one for all of its processes. A
// call that ended with an error, or whose process was killed, may have happened at
// any time after it began, or never.
package linear
