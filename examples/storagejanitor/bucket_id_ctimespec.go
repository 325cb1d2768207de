//go:build darwin || freebsd || netbsd

package storagejanitor

import "syscall"

func changed(st *syscall.Stat_t) (sec, nsec int64) { return st.Ctimespec.Unix() }
