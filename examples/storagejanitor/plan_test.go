package storagejanitor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlanRoundTrip(t *testing.T) {
	objects := []Object{
		{"logs/a.log", 12, time.Unix(1785542400, 123456789), "abc"},
		{"odd \u2028\"<name>\\", 0, time.Unix(-1, 5), ""},
	}
	raw, err := json.Marshal(newPlan(objects))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodePlan(raw)
	if diff := cmp.Diff(objects, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"", "{}", "null", `{"v":2,"objects":[{"n":"a","s":1,"t":1}]}`, `{"v":1,"objects":[]}`, `{"v":1,"objects":[{"n":"a","dir":1}]}`} {
		if got, err := decodePlan([]byte(bad)); err == nil {
			t.Errorf("decoded %q to %v", bad, got)
		}
	}
}
