//go:build !linux

package sqlite

import "os"

// companionsAreCertain says that another store may have other companions.
const companionsAreCertain = false

// companionLock is a lock that this system does not have: no lock of its
// belongs to an open file rather than to the process, and SQLite must have the
// process's own.
type companionLock struct{}

func (*companionLock) take(os.FileInfo, companions) error { return nil }
func (*companionLock) drop()                              {}
func (*companionLock) release()                           {}
