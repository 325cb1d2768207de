package otel_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Which SDK exports the figures is the server's choice: this package brings the
// API alone.
func TestAPIAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(dep, "go.opentelemetry.io/otel/sdk") || strings.HasPrefix(dep, "go.opentelemetry.io/otel/exporters") {
			t.Errorf("depends on %s", dep)
		}
	}
}
