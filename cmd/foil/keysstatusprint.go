package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (st *keysStatus) print(c *cobra.Command) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	switch {
	case st.Transit != nil:
		fmt.Fprintf(w, "%s, version %d seals", st.Source, st.Transit.Sealing)
		if st.Transit.MinOpening > 1 {
			fmt.Fprintf(w, ", versions before %d open nothing", st.Transit.MinOpening)
		}
		fmt.Fprintln(w)
	case st.Ring != nil:
		st.Ring.print(w, st.Source)
	default:
		fmt.Fprintf(w, "%s, which cannot be read\n", st.Source)
	}
	if len(st.Replicas) > 0 {
		fmt.Fprint(w, "\nREPLICA\tREADY\tSERIAL\tREFRESHED\tSEALING\tSEALED\n")
		for _, r := range st.Replicas {
			r.print(w)
		}
	}
	if len(st.Problems) > 0 {
		fmt.Fprint(w, "\nwrong:\n")
		for _, p := range st.Problems {
			fmt.Fprintf(w, "  %s\n", p)
		}
	}
	return w.Flush()
}

func (s *ringStatus) print(w *tabwriter.Writer, source string) {
	fmt.Fprintf(w, "%s, serial %d", source, s.Serial)
	switch {
	case s.Interop:
		fmt.Fprint(w, ", interop")
	case s.Storage:
		fmt.Fprint(w, ", storage")
	}
	if s.Sealing != nil {
		fmt.Fprintf(w, "\nkey %s seals since %s", *s.Sealing, s.SealingSince)
	} else {
		fmt.Fprint(w, "\nno key seals")
	}
	if s.Next != "" {
		fmt.Fprintf(w, "; next is %s, from %s", s.Next, s.NextFrom)
	}
	fmt.Fprintf(w, "\nnewest of %d made %v ago\n", s.Keys, time.Duration(s.NewestAge)*time.Second)
}

func (r *replicaStatus) print(w *tabwriter.Writer) {
	if r.Error != "" {
		fmt.Fprintf(w, "%s\t?\t-\t-\t-\t-\n", r.URL)
		return
	}
	ready, refreshed, serial := "no", "-", "-"
	if r.Ready {
		ready = "yes"
	}
	if r.Refreshed != "" {
		refreshed = fmt.Sprintf("%v ago", time.Duration(r.Age*float64(time.Second)).Round(time.Second))
		serial = fmt.Sprint(r.Serial)
	}
	sealing := r.Sealing
	if sealing == "" {
		sealing = "-"
	}
	var seals []string
	for _, id := range slices.Sorted(maps.Keys(r.Seals)) {
		if n := r.Seals[id]; n > 0 {
			seals = append(seals, fmt.Sprintf("%s: %d", id, n))
		}
	}
	if len(seals) == 0 {
		seals = []string{"-"}
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.URL, ready, serial, refreshed, sealing, strings.Join(seals, ", "))
}
