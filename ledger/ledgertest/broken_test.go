package ledgertest_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/foilmcp/foil/internal/faulttest"
	"github.com/foilmcp/foil/ledger"
	"github.com/foilmcp/foil/ledger/ledgertest"
)

// faults names each fault and the sub-tests that must find it.
var faults = map[string][]string{
	"harness lacks a point": {"harness is complete"},
	"says it is ephemeral":  {"harness is complete"},

	"drops the principal":             {"begin writes down what it is given"},
	"target is a C string":            {"begin writes down what it is given"},
	"target is UTF-8":                 {"begin writes down what it is given"},
	"round is one byte":               {"begin writes down what it is given"},
	"expires in seconds":              {"begin writes down what it is given"},
	"begins twice":                    {"begin again returns the operation untouched", "one of 64 concurrent begins starts"},
	"begin touches what is there":     {"begin again returns the operation untouched"},
	"begin returns what it was given": {"begin again returns the operation untouched"},
	"begin returns steps":             {"begin again returns the operation untouched"},
	"begin returns no outcome":        {"begin again returns the operation untouched"},
	"begin resumes what is unknown":   {"unknown once the lease has run out"},
	"ids are 8 bytes":                 {"ids are told apart"},
	"ids fold case":                   {"ids are told apart"},
	"ids end at a zero":               {"ids are told apart"},
	"takes any start":                 {"bad starts are errors"},
	"takes any lease":                 {"bad starts are errors"},
	"not atomic":                      {"one of 64 concurrent begins starts"},
	"not atomic over peers":           {"one of 64 concurrent begins over two peers starts"},
	"absent is nothing":               {"what is not there is not found"},
	"absent is not fenced":            {"what is not there is not found"},

	"lease never runs out":                      {"unknown once the lease has run out"},
	"lapse is an end":                           {"unknown once the lease has run out"},
	"lapse is written":                          {"renew works after the lease ran out"},
	"lease in minutes":                          {"lease is counted to the millisecond"},
	"lease in seconds":                          {"lease is counted to the millisecond"},
	"renew adds to the lease":                   {"renew counts from now"},
	"renew only prolongs":                       {"renew counts from now"},
	"renew does nothing":                        {"renew counts from now"},
	"renew refuses what lapsed":                 {"renew works after the lease ran out"},
	"renew by any fence":                        {"any other fence is shut out", "renew works after the lease ran out"},
	"renew takes any lease":                     {"bad leases are errors"},
	"renew of what has ended":                   {"nobody runs what has ended"},
	"renew revives what is declared unknown":    {"nobody runs what is declared unknown", "finish as unknown"},
	"resume keeps the fence":                    {"resume takes over what is unknown"},
	"resume returns no steps":                   {"resume takes over what is unknown"},
	"resume starts anew":                        {"resume takes over what is unknown"},
	"resume has no lease":                       {"resume takes over what is unknown"},
	"resume takes what is executing":            {"resume takes nothing else"},
	"resume takes what failed":                  {"resume takes nothing else", "nobody runs what has ended"},
	"resume by any fence":                       {"resume takes nothing else"},
	"resume is not atomic":                      {"one of 64 concurrent resumes wins"},
	"step by any fence":                         {"any other fence is shut out"},
	"finish by any fence":                       {"any other fence is shut out", "late finish tells what is unknown", "finish and resume exclude each other"},
	"any fence will do":                         {"any other fence is shut out"},
	"done step needs no fence":                  {"any other fence is shut out"},
	"same outcome needs no fence":               {"any other fence is shut out"},
	"steps by name":                             {"steps keep their order"},
	"steps by end":                              {"steps keep their order"},
	"step begins anew":                          {"step that began again keeps its beginning"},
	"step keeps its first fence":                {"step that began again keeps its beginning"},
	"done step runs again":                      {"done step is returned"},
	"done step has no result":                   {"done step is returned"},
	"step ends twice":                           {"step ends once", "one of 64 concurrent ends of a step wins"},
	"step needs a beginning":                    {"step may end without a beginning"},
	"step does not extend":                      {"steps extend the lease"},
	"done step does not extend":                 {"steps extend the lease"},
	"step end does not extend":                  {"steps extend the lease"},
	"steps fold case":                           {"step names are told apart"},
	"steps trim space":                          {"step names are told apart"},
	"takes any step":                            {"step names are told apart"},
	"steps are unbounded":                       {"steps are bounded"},
	"too many steps is full":                    {"steps are bounded"},
	"bound counts twice":                        {"steps are bounded"},
	"retention counts from the start":           {"kept until both times have passed"},
	"finish again is fenced":                    {"finish again with the same is no error"},
	"finish again keeps longer":                 {"finish again with the same is no error"},
	"finish overwrites":                         {"finish again with another outcome is fenced", "one of 64 concurrent finishes wins"},
	"unknown overwrites":                        {"finish again with another outcome is fenced"},
	"same state is the same":                    {"finish again with another outcome is fenced"},
	"late finish is fenced":                     {"late finish tells what is unknown"},
	"declared unknown is final":                 {"late finish tells what is unknown", "finish as unknown"},
	"declared unknown is an end":                {"finish as unknown"},
	"takes any finish":                          {"bad finishes are errors"},
	"empty outcome is nil":                      {"outcome is kept byte for byte"},
	"nil outcome is empty":                      {"outcome is kept byte for byte"},
	"outcome is text":                           {"outcome is kept byte for byte"},
	"outcome is trimmed":                        {"outcome is kept byte for byte"},
	"takes any outcome":                         {"long outcome is refused"},
	"takes any result":                          {"long outcome is refused"},
	"takes any finding":                         {"long outcome is refused"},
	"cuts long outcomes":                        {"long outcome is refused"},
	"finish is not atomic":                      {"one of 64 concurrent finishes wins"},
	"resolve keeps the fence":                   {"resolve ends what is unknown"},
	"drops the note":                            {"resolve ends what is unknown"},
	"resolve ends what is executing":            {"resolve ends nothing else"},
	"resolve by any fence":                      {"resolve ends nothing else", "resolve ends what is unknown"},
	"resolves twice":                            {"resolve ends nothing else"},
	"resolve is not atomic":                     {"one of 64 concurrent resolves wins"},
	"finish overrules the operator":             {"late finish after resolve is fenced"},
	"same as the operator's is no error":        {"late finish after resolve is fenced"},
	"resolved by nobody":                        {"bad resolutions are errors"},
	"kept by retention alone":                   {"kept until its time", "kept until both times have passed", "finish records the outcome"},
	"kept by Keep alone":                        {"kept until its time", "kept until both times have passed"},
	"kept by the sum":                           {"kept until both times have passed"},
	"forgets early":                             {"kept until its time"},
	"ignores the skew":                          {"kept until its time"},
	"sweeps everything":                         {"kept until its time", "executing and unknown are never forgotten"},
	"never forgets":                             {"forgotten after its time"},
	"forgets what is executing":                 {"executing and unknown are never forgotten"},
	"forgets what is unknown":                   {"executing and unknown are never forgotten"},
	"no mark":                                   {"forgotten operation does not start again", "fraction of a millisecond does not start it again", "clock set back does not revive", "marks survive a restart"},
	"below the mark only":                       {"forgotten operation does not start again"},
	"mark compares nanoseconds":                 {"fraction of a millisecond does not start it again"},
	"mark refuses what is there":                {"operation of any age is returned"},
	"mark goes by the clock":                    {"clock set back does not revive"},
	"mark in another step":                      {"sweep races begin"},
	"no restore mark":                           {"older than the restored store is refused"},
	"restored refuses what is there":            {"older than the restored store is refused"},
	"restored refuses everything":               {"older than the restored store is refused"},
	"restored operation is resumed":             {"restored operation is not resumed"},
	"restored store resumes nothing":            {"restored operation is not resumed"},
	"restore leaves what is executing":          {"restored operation is not resumed", "restore shuts out every process"},
	"restore leaves what lapsed":                {"restore shuts out every process"},
	"restore leaves what is declared unknown":   {"restore shuts out every process"},
	"restore keeps the fence":                   {"restore shuts out every process"},
	"list has no order":                         {"list is in the order of the start"},
	"list has the newest first":                 {"list is in the order of the start"},
	"list by what happened last":                {"list is in the order of the start"},
	"list ignores the state":                    {"list filters"},
	"list ignores the flow":                     {"list filters"},
	"list misses what lapsed":                   {"list filters"},
	"list has what lapsed as executing":         {"list filters"},
	"since is after":                            {"list filters"},
	"until is inclusive":                        {"list filters"},
	"since rounds down":                         {"list filters"},
	"until rounds down":                         {"list filters"},
	"cursor is a time":                          {"list goes page by page"},
	"cursor repeats":                            {"list goes page by page"},
	"cursor is an offset":                       {"list goes page by page"},
	"ends after a page":                         {"list goes page by page"},
	"limit is ignored":                          {"list goes page by page"},
	"list has outcomes":                         {"list leaves out steps and outcomes"},
	"list has steps":                            {"list leaves out steps and outcomes"},
	"list drops the principal":                  {"list leaves out steps and outcomes"},
	"takes any limit":                           {"bad queries are errors"},
	"takes any flow":                            {"bad queries are errors"},
	"takes any cursor":                          {"bad queries are errors"},
	"cursor is lax":                             {"bad queries are errors"},
	"counts what lapsed as executing":           {"counts each state"},
	"counts failed as succeeded":                {"counts each state"},
	"ping fails":                                {"ping writes nothing"},
	"ping begins":                               {"ping writes nothing"},
	"ignores the context":                       {"ended context writes nothing"},
	"writes, then asks the context":             {"ended context writes nothing"},
	"keeps the principal slice":                 {"caller may change what it gave and got"},
	"keeps the result slice":                    {"caller may change what it gave and got"},
	"keeps the outcome slice":                   {"caller may change what it gave and got"},
	"keeps the outcome of the resolution slice": {"caller may change what it gave and got"},
	"hands out its memory":                      {"caller may change what it gave and got"},
	"id in errors":                              {"errors tell nothing"},
	"id in errors, as a UUID":                   {"errors tell nothing"},
	"id in errors, in base64":                   {"errors tell nothing"},
	"outcome in errors":                         {"errors tell nothing"},
	"principal in errors":                       {"errors tell nothing"},
	"secret in errors":                          {"errors tell nothing"},
	"not durable":                               {"all survives a restart"},
	"steps not durable":                         {"all survives a restart"},
	"mark not durable":                          {"marks survive a restart"},
	"restored mark not durable":                 {"marks survive a restart"},
	"not shared":                                {"all is seen by a peer"},
	"steps not shared":                          {"all is seen by a peer"},
	"mark not shared":                           {"marks are seen by a peer"},
	"restored mark not shared":                  {"marks are seen by a peer"},
	"evicts":                                    {"full store refuses and forgets nothing"},
	"unbounded":                                 {"full store refuses and forgets nothing"},
	"full says started":                         {"full store refuses and forgets nothing"},
	"starts on error":                           {"broken backend is an error and loses nothing"},
	"fenced on error":                           {"broken backend is an error and loses nothing"},
	"not found on error":                        {"broken backend is an error and loses nothing"},
	"loses on error":                            {"broken backend is an error and loses nothing"},
	"ping is blind":                             {"broken backend is an error and loses nothing"},
}

func newHarness(fault string) *ledgertest.Harness {
	c := &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC)}
	memory := func() *ledger.Memory { return ledger.NewMemory(&ledger.MemoryOptions{Skew: skew, Now: c.Now}) }
	w := &world{
		clock: c, mem: memory(),
		inside: map[[16]byte][16]byte{}, outside: map[[16]byte][16]byte{},
		alias: map[string][]byte{}, declared: map[[16]byte]bool{}, again: map[[16]byte]int{},
	}
	another := func(*testing.T) ledger.Store {
		f := &fake{fault: fault, w: w, mem: w.mem}
		if f.is("not durable", "not shared") {
			f.mem = memory()
		}
		return f
	}
	f := &fake{fault: fault, w: w, mem: w.mem, first: true}
	h := &ledgertest.Harness{
		Store: f, Skew: skew, Now: c.Now, Advance: c.Advance, Sweep: f.Sweep,
		MaxOutcome: maxOutcome, MaxSteps: maxSteps,
		Reopen: another, Peer: another,
		Restored: f.restore,
		Full:     func(*testing.T) { w.limit = 50 },
		Break: func(t *testing.T) func() {
			away := func(b bool) { w.mu.Lock(); w.away = b; w.mu.Unlock() }
			away(true)
			if f.is("loses on error") {
				page, _, err := f.mem.List(t.Context(), ledger.Query{})
				if err != nil {
					t.Fatal(err)
				}
				for _, op := range page {
					f.forget(op.ID)
				}
			}
			return func() { away(false) }
		},
		Secret: password,
	}
	if fault == "harness lacks a point" {
		h.Peer = nil
	}
	return h
}

// TestFaulty runs the suite against a fault, in a process of its own.
func TestFaulty(t *testing.T) {
	fault := faulttest.Fault() // none: the suite can be passed in full
	ledgertest.Run(t, func(*testing.T) *ledgertest.Harness { return newHarness(fault) })
	t.Run("model", func(t *testing.T) {
		// It is to fail, nobody reads why, and not by luck.
		err := errors.Join(flag.Set("rapid.nofailfile", "true"), flag.Set("rapid.shrinktime", "0s"),
			flag.Set("rapid.seed", "1"))
		if err != nil {
			t.Fatal(err)
		}
		ledgertest.Model(t, func(*testing.T) *ledgertest.Harness { return newHarness(fault) })
	})
}

// modelled are faults that the model finds too.
var modelled = []string{
	"begins twice", "drops the principal", "lease never runs out", "lapse is written",
	"renew refuses what lapsed", "renew by any fence", "renew does nothing", "renew revives what is declared unknown",
	"resume keeps the fence", "resume takes what is executing", "resume returns no steps", "begin returns steps", "step by any fence",
	"steps by name", "step keeps its first fence", "done step runs again", "step ends twice", "step needs a beginning",
	"finish by any fence", "finish overwrites", "unknown overwrites", "same state is the same", "finish again is fenced",
	"finish again keeps longer", "late finish is fenced", "declared unknown is final", "declared unknown is an end",
	"empty outcome is nil", "nil outcome is empty", "resolve keeps the fence", "resolve by any fence", "drops the note",
	"resolve ends what is executing", "finish overrules the operator", "kept by Keep alone", "kept by retention alone",
	"ignores the skew", "never forgets", "no mark", "list ignores the state", "list ignores the flow",
	"list has outcomes", "cursor is a time", "ends after a page", "absent is not fenced",
}

func TestSuiteFindsEveryFault(t *testing.T) {
	for _, fault := range modelled {
		faults[fault] = append(faults[fault], "model")
	}
	faulttest.Find(t, faults)
}
