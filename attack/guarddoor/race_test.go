//go:build race

package guarddoor_test

func init() { raceEnabled = true }
