package labels_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/observe/internal/labels"
)

// Every reason that foil declares is in the set: a new one must not vanish
// among the others.
func TestReasonsAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Reason") {
			return true
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok {
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, s)
		}
		return true
	})
	if len(declared) == 0 {
		t.Fatal("no reasons found in errors.go")
	}
	if diff := cmp.Diff(declared, labels.Reasons); diff != "" {
		t.Errorf("-declared +labels\n%s", diff)
	}
}

func TestClosedSets(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{labels.Method("tools/call"), "tools/call"},
		{labels.Method("prompts/get"), "prompts/get"},
		{labels.Method("resources/read"), "resources/read"},
		{labels.Method("tools/call "), "other"},
		{labels.Method("\xff"), "other"},
		{labels.Method(""), "other"},
		{labels.Reason(foil.ReasonReplayed), "replayed"},
		{labels.Reason("a codec's own"), "other"},
		{labels.Op("check"), "check"},
		{labels.Op("x"), "other"},
		{labels.Store("replay"), "replay"},
		{labels.Store("x"), "other"},
		{labels.StoreOp("ping"), "ping"},
		{labels.StoreOp("x"), "other"},
		{labels.Cause(fmt.Errorf("x: %w", foil.ErrUnavailable)), "unavailable"},
		{labels.Cause(errors.Join(foil.ErrUnavailable, context.Canceled)), "canceled"},
		{labels.Cause(errors.Join(foil.ErrUnavailable, context.DeadlineExceeded)), "unavailable"},
		{labels.Cause(errors.New("x")), "internal"},
		{strconv.FormatBool(labels.StoreFailed(nil)), "false"},
		{strconv.FormatBool(labels.StoreFailed(context.Canceled)), "false"},
		{strconv.FormatBool(labels.StoreFailed(context.DeadlineExceeded)), "true"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, c := range labels.StoreCalls {
		if labels.Store(c[0]) != c[0] || labels.StoreOp(c[1]) != c[1] {
			t.Errorf("%v is not in the sets", c)
		}
	}
}

func TestKeys(t *testing.T) {
	var k labels.Keys
	for i, c := range []struct{ kid, want string }{
		{"", "none"},
		{"9f1c", "9f1c"},
		{"\xff", "other"},
		{strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{strings.Repeat("a", 65), "other"},
	} {
		if got := k.Label(c.kid); got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
	distinct := map[string]bool{}
	for i := range 10_000 {
		distinct[k.Label(fmt.Sprint(i))] = true
	}
	if len(distinct) != 255 { // 254 beside the two above, and other
		t.Errorf("%d labels", len(distinct))
	}
	if got := k.Label("9f1c"); got != "9f1c" {
		t.Errorf("a key seen before became %q", got)
	}
}
