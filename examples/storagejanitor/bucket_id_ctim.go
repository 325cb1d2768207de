//go:build dragonfly || linux || openbsd || solaris

package storagejanitor

import "syscall"

func changed(st *syscall.Stat_t) (sec, nsec int64) { return st.Ctim.Unix() }
