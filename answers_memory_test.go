package foil_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
)

// However the answers are made, what reading them allocates is bounded by their
// length.
func TestAnswersInBoundedMemory(t *testing.T) {
	const size = 1 << 20
	many := func(open, item, end string) string {
		var doc strings.Builder
		doc.WriteString(open)
		for i := 0; doc.Len() < size; i++ {
			if i > 0 {
				doc.WriteByte(',')
			}
			fmt.Fprintf(&doc, item, i)
		}
		return doc.String() + end
	}
	for _, tt := range []struct {
		name, answers string
		refused       bool
		perByte       float64
	}{
		{"one long text", `{"confirm":{"action":"accept","content":{"why":"` + strings.Repeat("x", size) + `"}}}`, false, 16},
		{"many members", `{"confirm":{"action":"accept","content":` + many("{", `"%x":0`, "}") + `}}`, false, 60},
		{"many unasked answers", many("{", `"%x":{}`, "}"), false, 60},
		{"many unasked numbers", many("{", `"%x":0`, "}"), false, 60},
		{"one answer again and again", many("{", `"confirm":{"action":"accept","content":{"n":%d}}`, "}"), true, 16},
		{"deep", `{"confirm":{"action":"accept","content":` + strings.Repeat("[", size) + `}}`, true, 16},
		{"numbers near the end of the range", `{"confirm":{"action":"accept","content":` + many(`{"n":[`, `%d,1797693134862315807e290`, "]}") + `}}`, false, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, func(o *foil.Options) { o.Once = foil.Off })
			token := b.seal(t, purge(), confirm())
			req := purge()
			req.Answers = json.RawMessage(tt.answers)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := b.Open(ctx, req, token)
			runtime.ReadMemStats(&after)
			if refused := err != nil; refused != tt.refused {
				t.Errorf("error %v", err)
			}
			perByte := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(tt.answers))
			t.Logf("%.1f bytes allocated for each byte", perByte)
			if perByte > tt.perByte && !raceEnabled {
				t.Errorf("%.1f bytes allocated for each byte, at most %.0f expected", perByte, tt.perByte)
			}
		})
	}
}

var raceEnabled bool // set by race_test.go: the detector allocates too
