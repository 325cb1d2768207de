// Package crashtest holds tests and no code: schedules of processes that execute
// one approval, drawn at random in one process and on a clock of their own, and
// outages of real stores under a Guard. Package crash does the same to real
// processes.
package crashtest
