package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil/examples/storagejanitor"
)

// Each replica of a served demo shows its figures.
func TestServeMetrics(t *testing.T) {
	s := serve(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.urls[0], MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: storagejanitor.PurgeTool, Arguments: map[string]any{"prefix": "logs-1/"},
	})
	if err != nil || res.IsError {
		t.Fatalf("purge: %+v, %v", res, err)
	}

	// Which replica had which round is the front's affair.
	total := map[string]int{}
	for _, u := range s.urls[1:] {
		page := metricsOf(t, u)
		for _, name := range []string{`foil_sealed_total{method="tools/call"}`, `foil_opened_total{method="tools/call"}`, `foil_rejected_total{method="tools/call",reason="replayed"}`} {
			m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\d+)$`).FindStringSubmatch(page)
			if m == nil {
				t.Fatalf("%s is missing in\n%s", name, page)
			}
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			total[name] += n
		}
		if strings.Contains(page, "logs-1") || strings.Contains(page, storagejanitor.PurgeTool) {
			t.Error("the metrics hold what was asked for")
		}
	}
	// The replicas share the store.
	if page := metricsOf(t, s.urls[1]); !strings.Contains(page, "\nfoil_store_spent_ids{name=\"demo\"} 1\n") {
		t.Errorf("the store does not tell of one spent state:\n%s", page)
	}
	if sealed, opened := total[`foil_sealed_total{method="tools/call"}`], total[`foil_opened_total{method="tools/call"}`]; sealed != 1 || opened != 1 {
		t.Errorf("%d sealed, %d opened; want 1 and 1", sealed, opened)
	}
}

// metricsOf fetches the metrics of the replica that serves MCP at endpoint.
func metricsOf(t *testing.T, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = demoMetrics
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", u, res.Status, err)
	}
	return string(body)
}
