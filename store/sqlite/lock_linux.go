package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Linux's commands for locks that belong to an open file and not to a process
// (fcntl(2), "Open file description locks"); package syscall lacks their names.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

// Where the locks are: far beyond SQLite's own, which begin at 1<<30, and
// beyond the end of any file.
const (
	lockBase  = 1 << 62
	lockBytes = 1 << 61
)

// companionsAreCertain says that no store can have other companions than a
// store that holds its companionLock.
const companionsAreCertain = true

// companionLock is one store's shared lock on the one byte of the database that
// stands for its companions. That no other byte is locked says that everybody
// has the same companions.
type companionLock struct {
	file *os.File // nil until the first take
	id   fileID
}

type fileID struct{ dev, ino uint64 }

// sysID returns the identity of a file.
func sysID(info os.FileInfo) (fileID, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, errors.New("system does not tell the identity of a file")
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

// opened are the descriptors on one database file. By POSIX, closing any of
// them drops all locks that the process holds on the file, SQLite's too, so all
// are kept until the last store in the process is done with the file.
type opened struct {
	stores    int
	all, free []*os.File
}

var databases = struct {
	sync.Mutex
	m map[fileID]*opened
}{m: make(map[fileID]*opened)}

// open gives l a descriptor of its own on the file at path, which must be want.
func (l *companionLock) open(path string, want os.FileInfo) error {
	databases.Lock()
	defer databases.Unlock()
	id, err := sysID(want)
	if err != nil {
		return err
	}
	if o := databases.m[id]; o != nil && len(o.free) > 0 {
		last := len(o.free) - 1
		l.file, l.id = o.free[last], id
		o.free = o.free[:last]
		o.stores++
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		id, err = sysID(info)
	}
	if err != nil {
		_ = f.Close() // of which database it is can no longer be told
		return err
	}
	o := databases.m[id]
	if o == nil {
		o = new(opened)
		databases.m[id] = o
	}
	o.all = append(o.all, f)
	o.stores++
	l.file, l.id = f, id
	if !os.SameFile(info, want) {
		l.giveBack()
		return errors.New("database file was replaced while it was opened")
	}
	return nil
}

// giveBack undoes open; databases must be locked.
func (l *companionLock) giveBack() {
	o := databases.m[l.id]
	o.free = append(o.free, l.file)
	o.stores--
	if o.stores == 0 {
		for _, f := range o.all {
			_ = f.Close()
		}
		delete(databases.m, l.id)
	}
	l.file = nil
}

// take locks the byte of c and then looks whether another store, of this
// process or of another, holds another byte. Of two stores that take different
// bytes at once at least one sees the other.
func (l *companionLock) take(main os.FileInfo, c companions) error {
	if l.file == nil {
		if err := l.open(c.main, main); err != nil {
			return err
		}
	}
	at, err := lockByte(c)
	if err != nil {
		return err
	}
	l.drop() // those of a connection before
	if _, err := l.fcntl(ofdSetLock, syscall.F_RDLCK, at, 1); err != nil {
		return fmt.Errorf("this system or file system has no locks of open files, which Linux has since 3.15: keep the file on a local disk: %w", err)
	}
	end := int64(lockBase + lockBytes)
	for _, r := range []struct{ from, to int64 }{{lockBase, at}, {at + 1, end}} {
		if r.from == r.to {
			continue // a length of 0 would mean the rest of the file
		}
		held, err := l.fcntl(ofdGetLock, syscall.F_WRLCK, r.from, r.to-r.from)
		if err != nil {
			return fmt.Errorf("looking for other processes: %w", err)
		}
		if held != syscall.F_UNLCK {
			return errElsewhere
		}
	}
	return nil
}

// drop unlocks. SQLite must have closed its connection before: closing may
// still move commits from the log to the database.
func (l *companionLock) drop() {
	if l.file != nil {
		_, _ = l.fcntl(ofdSetLock, syscall.F_UNLCK, lockBase, lockBytes)
	}
}

// release unlocks for good.
func (l *companionLock) release() {
	if l.file == nil {
		return
	}
	l.drop()
	databases.Lock()
	defer databases.Unlock()
	l.giveBack()
}

// fcntl returns the kind of lock that was set or found.
func (l *companionLock) fcntl(cmd int, kind int16, start, length int64) (int16, error) {
	lk := syscall.Flock_t{Type: kind, Start: start, Len: length}
	err := syscall.FcntlFlock(l.file.Fd(), cmd, &lk)
	return lk.Type, err
}

// lockByte returns which byte stands for c.
func lockByte(c companions) (int64, error) {
	var b []byte
	for _, info := range []os.FileInfo{c.wal, c.shm} {
		id, err := sysID(info)
		if err != nil {
			return 0, err
		}
		b = binary.LittleEndian.AppendUint64(b, id.dev)
		b = binary.LittleEndian.AppendUint64(b, id.ino)
	}
	sum := sha256.Sum256(b)
	return lockBase + int64(binary.LittleEndian.Uint64(sum[:])%lockBytes), nil
}
