package lab_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/foilmcp/foil/internal/chrometest"
)

var (
	shots   = flag.String("shots", "", "write screenshots of the page into this directory")
	measure = flag.Bool("measure", false, "measure first paint and full tables in the browser, and print them")
)

// everythingOpen opens all that can be opened.
const everythingOpen = settled + `
	const until = async (test) => { for (let i = 0; i < 2000 && !test(); i++) await new Promise((r) => setTimeout(r, 20)); };
	document.getElementById("bind-once").click();
	document.getElementById("replay").click();
	document.getElementById("demo").click();
	await until(() => /demo key is in force/.test(document.getElementById("summary").textContent) && document.querySelector(".moments"));
	for (const name of ["tamper-each-part", "other-user", "replay-5"]) document.querySelector('[data-row="' + name + '"] button').click();
	for (const d of document.querySelectorAll("details")) d.open = true;
`

// testAccessibility asks axe-core, narrow and wide, light and dark, with everything
// opened.
func testAccessibility(t *testing.T, browser *chrometest.Browser) {
	checks(t)
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	site := serve(t)
	tab := browser.Open(t, site)
	for _, test := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {320, "dark"}} {
		tab.Size(test.width, 900)
		tab.Prefer(map[string]string{"prefers-color-scheme": test.scheme, "prefers-reduced-motion": "reduce"})
		tab.Reload()
		found := chrometest.Eval[[]string](tab, everythingOpen+string(axe)+`;
			const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
			if (passes.length < 20) return ["only " + passes.length + " rules ran"];
			return violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary));
		`)
		for _, f := range found {
			t.Errorf("%d wide, %s: %s", test.width, test.scheme, f)
		}
		over := chrometest.Eval[[]string](tab, `
			const wide = document.documentElement.clientWidth;
			if (document.documentElement.scrollWidth <= wide) return [];
			return [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > wide + 1).slice(0, 12).map((e) => e.tagName + "." + e.className + "#" + e.id);
		`)
		if len(over) > 0 {
			t.Errorf("%d wide: the page is wider than the window: %q", test.width, over)
		}
	}
}

func testScreenshots(t *testing.T, browser *chrometest.Browser) {
	if *shots == "" {
		t.Skip("give -shots DIR to take pictures")
	}
	site := serve(t)
	for _, width := range []int64{320, 1280, 3840} {
		for _, scheme := range []string{"light", "dark"} {
			for _, opened := range []bool{false, true} {
				tab := browser.Open(t, "about:blank")
				tab.Size(width, map[int64]int64{320: 640, 1280: 800, 3840: 2160}[width])
				tab.Prefer(map[string]string{"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"})
				tab.Go(site)
				if opened {
					chrometest.Eval[any](tab, everythingOpen)
				} else {
					chrometest.Eval[any](tab, settled)
				}
				name := fmt.Sprintf("lab-%d-%s-%t.png", width, scheme, opened)
				if err := os.WriteFile(filepath.Join(*shots, name), tab.Screenshot(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// testMeasure prints figures; they are too much the machine's to be judged by a test.
func testMeasure(t *testing.T, browser *chrometest.Browser) {
	if !*measure {
		t.Skip("give -measure to measure")
	}
	site := serve(t)
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	var paints, first []float64
	for range 11 {
		tab := browser.Open(t, "about:blank")
		tab.Go(site)
		m := chrometest.Eval[struct{ Paint, Table float64 }](tab, `
			const Table = await (await import(location.origin + "/main.js")).ready;
			await new Promise((r) => setTimeout(r, 50));
			return { Paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, Table };
		`)
		paints, first = append(paints, m.Paint), append(first, m.Table)
	}
	t.Logf("first contentful paint: median %.0f ms, worst %.0f ms of %d loads in fresh profiles", median(paints), slices.Max(paints), len(paints))
	t.Logf("full table right after loading: median %.0f ms, worst %.0f ms", median(first), slices.Max(first))
	tab := browser.Open(t, site)
	for _, format := range []string{"v1", "h1"} {
		later := chrometest.Eval[[]float64](tab, settled+`
			const { run } = await import(location.origin + "/attacks/table.js");
			const { session } = await import(location.origin + "/main.js");
			const policy = { integrity: true, principal: true, expiry: true, request: true, audience: true, questions: true, once: true };
			const all = [];
			for (let i = 0; i < 20; i++) {
				const began = performance.now();
				await run({ key: session.key, format: args[0], now: () => Date.now() / 1000 }, policy);
				all.push(performance.now() - began);
			}
			return all;
		`, format)
		t.Logf("full table later, %s: median %.0f ms, worst %.0f ms of %d", format, median(later), slices.Max(later), len(later))
	}
}
