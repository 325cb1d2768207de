//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// links returns how many names the file has.
func links(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
