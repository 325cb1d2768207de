package keyringtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/keyring/keyringtest"
)

// disk is what the processes of a fake store share.
type disk struct {
	mu   sync.Mutex
	doc  []byte
	away bool

	writer sync.Mutex // for a fault
}

// fake is a correct store over a disk, but for its fault. It locks nothing while a
// function runs: who loses a race tries again.
type fake struct {
	fault string
	disk  *disk
	own   struct { // what a fault keeps in the wrong place
		mu     sync.Mutex
		cached *keyring.Ring
	}
}

const password = "the-password-of-the-backend"

func (f *fake) is(fault string) bool { return f.fault == fault }

func (f *fake) remember(r *keyring.Ring) {
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	f.own.cached = r
}

func (f *fake) remembered() *keyring.Ring {
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	return f.own.cached
}

func (f *fake) errAway() error {
	if f.is("secret in errors") {
		return fmt.Errorf("fake: no backend at fake://user:%s@host", password)
	}
	return errors.New("fake: no backend")
}

var errEmpty = errors.New("fake: no document")

// read returns the document as it is.
func (f *fake) read() ([]byte, *keyring.Ring, error) {
	f.disk.mu.Lock()
	doc, away := f.disk.doc, f.disk.away
	f.disk.mu.Unlock()
	switch {
	case away:
		return nil, nil, f.errAway()
	case doc == nil:
		return nil, nil, errEmpty
	}
	r, err := keyring.Parse(doc)
	switch {
	case err == nil:
		return doc, r, nil
	case f.is("document in errors"):
		return nil, nil, fmt.Errorf("fake: %s: %w", doc, err)
	case f.is("keys in errors, in base64"):
		_, at, _ := bytes.Cut(doc, []byte(`"secret":"`))
		return nil, nil, fmt.Errorf("fake: near %s: %w", at[:min(20, len(at))], err)
	}
	return nil, nil, err
}

func (f *fake) Load(ctx context.Context) (*keyring.Ring, error) {
	if err := ctx.Err(); err != nil && !f.is("load ignores the context") {
		return nil, err
	}
	if f.is("load waits for writers") {
		for !f.disk.writer.TryLock() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			time.Sleep(time.Millisecond)
		}
		defer f.disk.writer.Unlock()
	}
	last := f.remembered()
	if last != nil && f.is("remembers what it loaded") {
		return last, nil
	}
	_, r, err := f.read()
	switch {
	case err == nil:
		f.remember(r)
	case errors.Is(err, errEmpty) && f.is("nothing is a new ring"):
		return keyring.NewEphemeral(), nil
	case last != nil && (f.is("malformed is the last good") || f.is("no backend is the last ring")):
		return last, nil
	}
	return r, err
}

func (f *fake) Update(ctx context.Context, fn func(*keyring.Ring) (*keyring.Ring, error)) (*keyring.Ring, error) {
	late := f.is("writes, then asks the context")
	if err := ctx.Err(); err != nil && !late && !f.is("update ignores the context") {
		return nil, err
	}
	if f.is("not atomic over peers") {
		f.own.mu.Lock()
		defer f.own.mu.Unlock()
	}
	if f.is("load waits for writers") {
		f.disk.writer.Lock()
		defer f.disk.writer.Unlock()
	}
	var first *keyring.Ring
	for {
		doc, old, err := f.read()
		if first == nil {
			first = old
		}
		switch {
		case errors.Is(err, errEmpty) && f.is("update of nothing creates"):
			old, err = keyring.NewEphemeral(), nil
		case err != nil && f.is("no backend is a success"):
			return old, nil
		case err != nil && f.is("loses on error"):
			f.disk.mu.Lock()
			f.disk.doc = nil
			f.disk.mu.Unlock()
		}
		if err != nil {
			return nil, err
		}
		given := old
		if f.is("a lost race starts with the old") {
			given = first
		}
		if f.is("updates what it remembers") {
			if last := f.remembered(); last != nil {
				given = last
			}
		}
		r, err := fn(given)
		if err != nil && f.is("retries a function that fails") {
			r, err = fn(given)
		}
		if f.is("writes before it looks") && r != nil {
			f.write(doc, r)
		}
		switch {
		case err != nil && f.is("hides the function's error"):
			return nil, errors.New("fake: function failed")
		case err != nil && f.is("swallows the function's error"):
			return old, nil
		case err != nil:
			return nil, err
		case r == given && f.is("no change is an error"):
			return nil, errors.New("fake: no change")
		case r == given:
			return r, nil
		}
		if f.is("refuses after the write") && r != nil {
			f.write(doc, r)
		}
		if err := keyring.CheckUpdate(given, r); err != nil && !f.takes(given, r) {
			return nil, err
		}
		if r == nil {
			return old, nil
		}
		if f.is("not atomic") || f.is("a lost race is a success") || f.is("not atomic over peers") {
			for range 3 {
				runtime.Gosched()
			}
		}
		if f.is("update stores nothing") {
			return r, nil
		}
		if !f.write(doc, r) {
			switch f.fault {
			case "a lost race is a success":
			case "a lost race writes all the same":
				f.disk.mu.Lock()
				f.disk.doc = r.Marshal()
				f.disk.mu.Unlock()
			default:
				continue
			}
		}
		if !f.is("not atomic over peers") { // which holds the lock
			f.remember(r)
		}
		if late {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if f.is("update returns the old ring") {
			return old, nil
		}
		return r, nil
	}
}

// takes reports whether the fault is to accept this update.
func (f *fake) takes(old, r *keyring.Ring) bool {
	switch f.fault {
	case "takes no ring":
		return r == nil
	case "takes the same serial":
		return r != nil && r.Serial() == old.Serial()
	case "takes a lower serial":
		return r != nil && r.Serial() < old.Serial()
	case "takes a skipped serial":
		return r != nil && r.Serial() > old.Serial()+1
	case "takes another kind":
		return r != nil && r.Interop() != old.Interop()
	case "takes a ring for rows":
		return r != nil && r.Storage() != old.Storage()
	case "looks at tokens' kind alone":
		return r != nil && (old.Interop() || old.Storage())
	}
	return false
}

// write puts r in the place of doc and reports whether doc was still there.
func (f *fake) write(doc []byte, r *keyring.Ring) bool {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if !bytes.Equal(d.doc, doc) && !f.is("not atomic") && !f.is("not atomic over peers") {
		return false
	}
	text := r.Marshal()
	if f.is("forgets that a ring is for rows") {
		text = bytes.Replace(text, []byte(`"storage": true,`), nil, 1)
	}
	switch f.fault {
	case "writes in two steps":
		d.doc = text[:len(text)/2]
		f.pause()
	case "writes half and fills it up": // as a file that was opened to be written does
		d.doc = []byte{}
		f.pause()
	}
	d.doc = text
	return true
}

// pause lets readers in between two steps that ought to be one.
func (f *fake) pause() {
	f.disk.mu.Unlock()
	time.Sleep(time.Millisecond)
	f.disk.mu.Lock()
}

func (f *fake) Create(ctx context.Context, r *keyring.Ring) error {
	late := f.is("writes, then asks the context")
	if err := ctx.Err(); err != nil && !late && !f.is("create ignores the context") {
		return err
	}
	if f.is("create mends") {
		if _, _, err := f.read(); err != nil && !errors.Is(err, errEmpty) && !f.disk.away {
			f.disk.doc = nil
		}
	}
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		if f.is("no backend is ErrExists") {
			return keyring.ErrExists
		}
		return f.errAway()
	}
	exists := d.doc != nil
	if f.is("create is not atomic") {
		d.mu.Unlock()
		time.Sleep(time.Millisecond) // the way to the backend and back
		d.mu.Lock()
	}
	if exists {
		switch f.fault {
		case "create overwrites":
		case "create overwrites what is less":
			if old, err := keyring.Parse(d.doc); err != nil || old.Serial() >= r.Serial() {
				return keyring.ErrExists
			}
		case "create does not say why":
			return errors.New("fake: cannot create")
		case "create takes its own again":
			if !bytes.Equal(d.doc, r.Marshal()) {
				return keyring.ErrExists
			}
		default:
			return fmt.Errorf("fake: %w", keyring.ErrExists)
		}
	}
	if !f.is("create stores nothing") {
		d.doc = r.Marshal()
	}
	if late {
		return ctx.Err()
	}
	return nil
}

func newHarness(fault string) *keyringtest.Harness {
	d := &disk{}
	handle := func() *fake { return &fake{fault: fault, disk: d} }
	h := &keyringtest.Harness{
		Store: handle(),
		Peer:  func(*testing.T) keyring.Store { return handle() },
		Put: func(_ *testing.T, doc []byte) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.doc = doc
		},
		Break: func(*testing.T) func() {
			away := func(b bool) { d.mu.Lock(); d.away = b; d.mu.Unlock() }
			away(true)
			return func() { away(false) }
		},
		Secret: password,
	}
	if fault == "harness lacks a point" {
		h.Put = nil
	}
	return h
}
