//go:build !unix

package pgtest

import (
	"os"
	"os/exec"
)

var crash = os.Kill

func give(string) error      { return nil }
func unprivileged(*exec.Cmd) {}
