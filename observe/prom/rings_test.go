package prom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foilmcp/foil/keyring"
	"github.com/foilmcp/foil/observe/prom"
)

func TestRings(t *testing.T) {
	st := keyring.Status{Serial: 7, Ready: true, Age: 1500 * time.Millisecond, Propagation: 5 * time.Minute, Error: "secret-host", Sealing: "secret-id"}
	reg := prometheus.NewPedanticRegistry()
	c, err := prom.Rings(reg,
		prom.Ring{Name: "tokens", Status: func() keyring.Status { return st }},
		prom.Ring{Name: "rows", Status: func() keyring.Status { return keyring.Status{Serial: 1, Ready: true} }},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := func(lines ...string) {
		t.Helper()
		text := all(t, reg)
		for _, l := range append(lines, `foil_ring_ready{name="rows"} 1`, `foil_ring_serial{name="tokens"} 7`, `foil_ring_propagation_seconds{name="tokens"} 300`) {
			if !strings.Contains(text, l+"\n") {
				t.Errorf("%s is missing in\n%s", l, text)
			}
		}
		if strings.Contains(text, "secret") {
			t.Errorf("the metrics tell more than figures:\n%s", text)
		}
	}
	want(`foil_ring_ready{name="tokens"} 1`, `foil_ring_usable{name="tokens"} 1`, `foil_ring_age_seconds{name="tokens"} 1.5`)
	st.Ready, st.Age = false, 301*time.Second
	want(`foil_ring_ready{name="tokens"} 0`, `foil_ring_usable{name="tokens"} 1`, `foil_ring_age_seconds{name="tokens"} 301`)
	st.Stale = true
	want(`foil_ring_ready{name="tokens"} 0`, `foil_ring_usable{name="tokens"} 0`)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	reg.Unregister(c)
	if text := all(t, reg); text != "" {
		t.Errorf("after it was unregistered\n%s", text)
	}
}

func TestRingsRefuses(t *testing.T) {
	good := prom.Ring{Name: "tokens", Status: func() keyring.Status { return keyring.Status{} }}
	reg := prometheus.NewRegistry()
	if _, err := prom.Rings(nil, good); err == nil {
		t.Error("no registerer is accepted")
	}
	for name, rings := range map[string][]prom.Ring{
		"nothing": nil, "no name": {{Status: good.Status}}, "no status": {{Name: "a"}}, "a name twice": {good, good},
		"a long name": {{Name: strings.Repeat("x", 65), Status: good.Status}},
	} {
		if _, err := prom.Rings(reg, rings...); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := prom.Rings(reg, good); err != nil {
		t.Error(err)
	}
	if _, err := prom.Rings(reg, good); err == nil {
		t.Error("the same metrics are registered twice")
	}
}
