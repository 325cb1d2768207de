//go:build unix

package crash_test

func fullChild() error     { return nil }
func readOnlyChild() error { return nil }
