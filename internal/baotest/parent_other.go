//go:build !linux

package baotest

import "os/exec"

func endWithParent(*exec.Cmd) {}
