//go:build unix

package pgtest

import (
	"os"
	"os/exec"
	"syscall"
)

// crash makes the server end at once, with all its processes, as if it had
// crashed: it recovers at the next start.
const crash = syscall.SIGQUIT

// nobody is who runs the server if the tests run as root, which PostgreSQL
// refuses.
const nobody = 65534

// give makes path belong to the user who runs the server.
func give(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(path, nobody, nobody)
}

func unprivileged(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}
