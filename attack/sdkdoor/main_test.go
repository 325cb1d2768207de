package sdkdoor_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain lets more tests run at a time than there are processors: most of
// their time goes by in waiting for stores that are away.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", fmt.Sprint(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
