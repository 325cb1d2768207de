package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/store/dsn"
)

// A demoReport prints what the attacks came to: lines as they happen, or one
// JSON object at the end. On a terminal it also tells what is going on.
type demoReport struct {
	out, err io.Writer
	json     bool
	colour   bool // out is a terminal
	live     bool // err is a terminal
	name     int  // widths of the columns
	verdict  int
	without  foil.Binding
	mode     demoModeJSON
	failed   error // of writing
}

// A demoModeJSON says in JSON how the server is set.
type demoModeJSON struct {
	Once    string `json:"once"`
	Without string `json:"without"`
	Codec   string `json:"codec"`
	Store   string `json:"store"`
}

func newDemoReport(out, err io.Writer, json bool) *demoReport {
	r := &demoReport{out: out, err: err, json: json, colour: showsColours(out), live: showsColours(err)}
	for _, a := range attack.Battery() {
		r.name = max(r.name, len(a.Name))
	}
	r.verdict = len(attack.NotVisible)
	return r
}

func (r *demoReport) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); err != nil && r.failed == nil {
		r.failed = fmt.Errorf("print: %w", err)
	}
}

func (r *demoReport) start(replicas int, mode attack.Mode, format *tokenFormat, store string) error {
	r.without = mode.Without
	r.mode = demoModeJSON{mode.Once.String(), mode.Without.String(), format.name, store}
	for _, a := range attack.Battery() {
		for _, verdict := range a.Expect(mode) {
			r.verdict = max(r.verdict, len(verdict))
		}
	}
	if r.json {
		return nil
	}
	words := demoMode(mode, format)
	if store != dsn.SQLite {
		words += ", store: " + store
	}
	r.printf("A storage janitor on %d replicas, %s. Each attack is an honest retry, changed.\n\n", replicas, words)
	r.printf("   %-*s  %-*s  %s\n", r.name, "ATTACK", r.verdict, "VERDICT", "STOPPED BY")
	return r.failed
}

// progress is called around each attack.
func (r *demoReport) progress(total int) func(*attack.Attack, *attack.Result) {
	n := 0
	return func(a *attack.Attack, res *attack.Result) {
		if res == nil {
			n++
			if r.live {
				fmt.Fprintf(r.err, "\r\x1b[K%d of %d: %s …", n, total, a.Name)
			}
			return
		}
		if r.live {
			fmt.Fprint(r.err, "\r\x1b[K")
		}
		if !r.json {
			r.line(res)
		}
	}
}

func (r *demoReport) line(res *attack.Result) {
	mark := r.paint("ok", "32")
	if !res.OK {
		mark = r.paint("NO", "31;1")
	}
	by := res.StoppedBy
	if by == "" {
		by = "–"
	}
	if through(res) {
		by = "nothing"
	}
	if res.Note != "" {
		by += strings.Repeat(" ", max(0, 14-utf8.RuneCountInString(by))) + "  " + r.paint(res.Note, "2")
	}
	r.printf("%s %-*s  %-*s  %s\n", mark, r.name, res.Name, r.verdict, res.Got, by)
	if !res.OK {
		r.printf("   expected %s\n   reply    %s\n", res.Expected, res.Wire)
	}
}

func (r *demoReport) paint(text, code string) string {
	if !r.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// end prints the summary, or all of the JSON.
func (r *demoReport) end(results []attack.Result, took time.Duration) error {
	wrong := 0
	for _, res := range results {
		if !res.OK {
			wrong++
		}
	}
	if r.json {
		if err := printJSON(r.out, struct {
			OK      bool            `json:"ok"`
			Mode    demoModeJSON    `json:"mode"`
			Attacks []attack.Result `json:"attacks"`
		}{wrong == 0, r.mode, results}); err != nil {
			return err
		}
	} else {
		if wrong == 0 {
			r.printf("\nAll %d as expected, in %.1f s.\n", len(results), took.Seconds())
		} else {
			r.printf("\n%d of %d not as expected, in %.1f s.\n", wrong, len(results), took.Seconds())
		}
	}
	if r.without != 0 && !r.json {
		r.printf("Without %v this got through: %s.\n", r.without, strings.Join(passed(results), ", "))
	}
	switch {
	case r.failed != nil:
		return r.failed
	case wrong > 0:
		return errRefused
	}
	return nil
}

// through reports whether an attack that something is to stop got through, every
// time it was tried.
func through(res *attack.Result) bool {
	some, all, counted := strings.Cut(res.Got, " of ")
	return res.StoppedBy != "" && (strings.HasPrefix(res.Got, attack.Accepted) || counted && some == all)
}

// passed names the attacks that something is to stop and that were accepted.
func passed(results []attack.Result) []string {
	var names []string
	for _, res := range results {
		if through(&res) {
			names = append(names, res.Name)
		}
	}
	if names == nil {
		return []string{"nothing"}
	}
	return names
}

// demoMode says how the server is set.
func demoMode(m attack.Mode, format *tokenFormat) string {
	s := "single use: " + m.Once.String()
	if format != tokenFormats[0] {
		s += ", codec: " + format.name
	}
	if m.Without != 0 {
		s += ", without: " + m.Without.String()
	}
	return s
}
