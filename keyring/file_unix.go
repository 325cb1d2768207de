//go:build unix

package keyring

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	openFlags = syscall.O_NONBLOCK // opening a named pipe must not hang
	noFollow  = syscall.O_NOFOLLOW
)

func widerThanOwner(info fs.FileInfo) fs.FileMode { return info.Mode().Perm() & 0o077 }

// tryLock takes an exclusive lock that ends with the open file, and so with the
// process. It reports false without an error while another holds it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return false, err
}

// onlyName reports whether f is a regular file with one name.
func onlyName(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	have, ok := info.Sys().(*syscall.Stat_t)
	return ok && have.Nlink == 1
}

// takeOwner gives f the owner and group of another file, if they differ.
func takeOwner(f *os.File, like fs.FileInfo) error {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}
