package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/foilmcp/foil/store/sqlite"
)

func init() { children["tmpfs"] = tmpfsChild }

// tmpfsChild fills a disk of its own. What Ping says must then be what Use
// says.
func tmpfsChild(path string) error {
	dir := filepath.Dir(path)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	use := func() error {
		first, err := s.Replay().Use(ctx, newID(), time.Now().Add(time.Hour))
		if err == nil && !first {
			err = errors.New("a fresh id was not first")
		}
		return err
	}
	if err := errors.Join(s.Ping(ctx), use()); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	if err := s.Ping(ctx); err == nil {
		return errors.New("Ping on a full disk = nil")
	}
	for i := range 20 {
		if ping, err := s.Ping(ctx), use(); ping == nil && err != nil {
			return fmt.Errorf("round %d: Ping = nil, then Use: %w", i, err)
		} else if ping != nil && i == 0 {
			fmt.Println("error:", ping)
		}
	}
	if err := errors.Join(f.Close(), os.Remove(filler)); err != nil {
		return err
	}
	if err := errors.Join(s.Ping(ctx), use()); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return s.Close()
}

func TestPingOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"=tmpfs", "FOIL_SQLITE_TEST_PATH="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("needs the right to mount: run as root with CAP_SYS_ADMIN: %v", err)
	}
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	_, _ = t.Output().Write(out)
}

// Ping writes no less than spending an ID does.
func TestPingWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "foil.db")
	s := open(t, path, nil)
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	mustUse(t, s, newID(), true)
	used := size()
	for range 2 {
		at := size()
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if use, ping := used-before, size()-at; ping < use {
			t.Errorf("Ping added %d bytes to the log, Use %d", ping, use)
		}
	}
}
