package labels_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/observe/internal/labels"
)

// declared are the texts of the constants in a file of foil whose names begin with
// prefix.
func declared(t *testing.T, name, prefix string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../"+name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, prefix) {
			return true
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok {
			texts = append(texts, unquoted(t, lit))
		}
		return true
	})
	if len(texts) == 0 {
		t.Fatalf("no constants %s found in %s", prefix, name)
	}
	return texts
}

func unquoted(t *testing.T, lit *ast.BasicLit) string {
	t.Helper()
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every reason and status that foil declares is in its set: a new one must not
// vanish among the others.
func TestSetsAreComplete(t *testing.T) {
	if diff := cmp.Diff(declared(t, "errors.go", "Reason"), labels.Reasons); diff != "" {
		t.Errorf("-declared +labels\n%s", diff)
	}
	if diff := cmp.Diff(declared(t, "operation.go", "Operation"), labels.Statuses); diff != "" {
		t.Errorf("-declared +labels\n%s", diff)
	}
}

// So is every call of a store that foil makes.
func TestStoreCallsAreComplete(t *testing.T) {
	files, err := filepath.Glob("../../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	called := [][2]string{{"replay", "ping"}, {"ledger", "ping"}, {"codec", "ping"}} // by the name of a health
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var texts []string
			for _, a := range c.Args {
				if lit, ok := a.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					texts = append(texts, unquoted(t, lit))
				}
			}
			switch f := c.Fun.(type) {
			case *ast.SelectorExpr:
				if f.Sel.Name == "storeCall" && len(texts) == 2 {
					called = append(called, [2]string(texts))
				}
			case *ast.Ident:
				if f.Name == "ledgerCall" && len(texts) == 1 {
					called = append(called, [2]string{"ledger", texts[0]})
				}
			}
			return true
		})
	}
	inOrder := func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) }
	slices.SortFunc(called, inOrder)
	want := slices.Clone(labels.StoreCalls)
	slices.SortFunc(want, inOrder)
	if diff := cmp.Diff(slices.Compact(called), want); diff != "" {
		t.Errorf("-called +labels\n%s", diff)
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
		{labels.Op("conclude"), "conclude"},
		{labels.Op("x"), "other"},
		{labels.Status(foil.OperationRecorded), "recorded"},
		{labels.Status("x"), "other"},
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
