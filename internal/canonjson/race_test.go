//go:build race

package canonjson_test

func init() { raceEnabled = true }
