//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris

package storagejanitor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io/fs"
	"syscall"
)

// id makes the ID of an object: a digest, short since a plan holds many, of the
// number of the file and the time of its last change of any kind. File systems
// give the number of a deleted file to the next new one, and whoever may write a
// file may set its time of modification, but nobody sets the time of change.
//
// The number of the device is left out for the bucket's own, since machines that
// share a file system do not agree on it.
func (b *Bucket) id(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	root, ok2 := b.info.Sys().(*syscall.Stat_t)
	if !ok || !ok2 {
		return ""
	}
	var raw [32]byte
	if st.Dev != root.Dev {
		binary.BigEndian.PutUint64(raw[0:], uint64(st.Dev))
	}
	sec, nsec := changed(st)
	binary.BigEndian.PutUint64(raw[8:], uint64(st.Ino))
	binary.BigEndian.PutUint64(raw[16:], uint64(sec))
	binary.BigEndian.PutUint64(raw[24:], uint64(nsec))
	sum := sha256.Sum256(raw[:])
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
