//go:build !unix

package keyring

import (
	"errors"
	"io/fs"
	"os"
)

const openFlags, noFollow = 0, 0

// Modes do not say who may read a file here; access lists do, which are the
// administrator's matter.
func widerThanOwner(fs.FileInfo) fs.FileMode { return 0 }

func tryLock(*os.File) (bool, error) {
	return false, errors.New("writing a ring file needs a Unix; write it there and copy it here")
}

func takeOwner(*os.File, fs.FileInfo) error { return nil }

func onlyName(*os.File) bool { return false }
