//go:build unix

package crash_test

import "slices"

// A fate is what must have become of an operation, as far as it is determined.
type fate struct {
	begun, input, finished bool
	fence                  uint64
	done                   [parts]bool
	calls                  [parts]int // of the provider
}

// A move is a point, and what happens between it and the next one.
type move struct {
	point string
	then  func()
}

// moves are what one more process comes by that presents the state and finds the
// operation in this fate, not executing.
func (f *fate) moves(tool string) (all []move) {
	add := func(point string, then func()) { all = append(all, move{point, then}) }
	add(arrive, nil)
	if f.begun {
		add(beforeBegin, nil)
		if f.finished || tool == whole {
			add(beforeReply, nil)
			return all
		}
		add(beforeResume, func() { f.fence++ })
		add(afterResume, nil)
	} else {
		add(beforeBegin, func() { f.begun, f.fence = true, 1 })
		add(afterBegin, nil)
	}
	add(beforeHandler, nil)
	effect := func(i int) {
		add(beforeEffect(i), func() { f.calls[i]++ })
		add(afterEffect(i), nil)
	}
	if tool == whole {
		effect(0)
	} else {
		if !f.input {
			add(beforeInput, func() { f.input = true })
			add(afterInput, nil)
		}
		for i := range parts {
			add(beforeStep(i), nil)
			add(afterStep(i), nil)
			if !f.done[i] {
				effect(i)
				add(beforeDone(i), func() { f.done[i] = true })
				add(afterDone(i), nil)
			}
		}
	}
	add(afterHandler, nil)
	add(beforeRecord, func() { f.finished = true })
	add(afterRecord, nil)
	add(beforeReply, nil)
	return all
}

// run lets one more process go as far as a point, or to its end if it does not come
// by that point.
func (f *fate) run(tool, point string) (reached bool) {
	for _, m := range f.moves(tool) {
		if m.point == point {
			return true
		}
		if m.then != nil {
			m.then()
		}
	}
	return false
}

// pending reports whether the operation is cut off.
func (f *fate) pending() bool { return f.begun && !f.finished }

// fenced is what a process still does that was stopped at a point, and finds that
// the operation is no longer its own: what it was about to call already, at most
// once, and nothing that it would begin.
func (f *fate) fenced(point string) {
	for i := range parts {
		if point == beforeEffect(i) {
			f.calls[i]++
		}
	}
}

// later are the points behind one, of those that a process comes by which resumes.
func later(point string) []string {
	all := pointsOf(steps)
	i := slices.Index(all, point)
	rest := []string{beforeResume, afterResume, beforeHandler}
	for _, p := range all[i+1:] {
		if p != beforeReply && !slices.Contains(rest, p) && p != beforeBegin && p != afterBegin {
			rest = append(rest, p)
		}
	}
	return rest
}
