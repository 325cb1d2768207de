//go:build race

package foil_test

func init() { raceEnabled = true }
