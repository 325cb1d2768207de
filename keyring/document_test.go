package keyring_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/foilmcp/foil/keyring"
	"pgregory.net/rapid"
)

func oneKey(rest string) string { return `[{"id":"a","secret":"` + b64(1) + `"` + rest + `}]` }

func TestParseAndMarshal(t *testing.T) {
	in := strings.Replace(doc(`[{"id":"2026-11-30a","secret":"`+b64(1)+`","seal_from":1795000000,"open_until":1796000000},{"id":"b","secret":"`+b64(2)+`","seal_from":0}]`),
		`"revoked":[]`, `"revoked":["b","gone"]`, 1)
	r := mustParse(t, in)
	if r.Serial() != 7 || r.Propagation() != 5*time.Minute || r.Keep() != 24*time.Hour || len(r.Keys()) != 2 {
		t.Errorf("%s", r.Marshal())
	}
	if k := r.Keys()[1]; !k.Revoked() || k.SealFrom().IsZero() || k.SealFrom().Unix() != 0 {
		t.Error("second key is wrong")
	}
	if ids := r.RevokedIDs(); len(ids) != 2 || ids[1] != "gone" {
		t.Error("a revocation without its key is lost", ids)
	}
	out := r.Marshal()
	again, err := keyring.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Marshal(), out) {
		t.Error("Marshal and Parse are not inverse")
	}
	compact := strings.Join(strings.Fields(string(out)), "")
	if compact != in {
		t.Errorf("document is\n%s\nwant\n%s", compact, in)
	}
}

func TestParseIsStrict(t *testing.T) {
	good := doc(oneKey(`,"seal_from":1`))
	sub := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("test is wrong: no %s", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	long := strings.Repeat("x", 33)
	for _, tc := range []struct{ name, doc, says string }{
		{"empty", ``, "object"},
		{"null", `null`, "object"},
		{"array", `[]`, "object"},
		{"truncated", good[:len(good)-1], "not JSON"},
		{"trailing data", good + `{}`, "after"},
		{"trailing word", good + `x`, "after"},
		{"bom", "\ufeff" + good, "object"},
		{"unknown member", sub(`"version"`, `"x":1,"version"`), "unknown"},
		{"other case", sub(`"serial"`, `"Serial"`), "unknown"},
		{"duplicate member", sub(`"serial":7`, `"serial":7,"serial":8`), `duplicate member "serial"`},
		{"duplicate by escape", sub(`"serial":7`, `"serial":7,"s\u0065rial":8`), "duplicate"},
		{"missing version", sub(`"version":1,`, ``), "version"},
		{"other version", sub(`"version":1`, `"version":2`), "version"},
		{"missing serial", sub(`"serial":7,`, ``), "serial"},
		{"serial zero", sub(`"serial":7`, `"serial":0`), "serial"},
		{"serial text", sub(`"serial":7`, `"serial":"7"`), "serial"},
		{"serial fraction", sub(`"serial":7`, `"serial":7.0`), "serial"},
		{"serial exponent", sub(`"serial":7`, `"serial":7e0`), "serial"},
		{"serial too large", sub(`"serial":7`, `"serial":9007199254740992`), "serial"},
		{"missing interop", sub(`"interop":false,`, ``), "interop"},
		{"interop number", sub(`"interop":false`, `"interop":0`), "interop"},
		{"interop null", sub(`"interop":false`, `"interop":null`), "interop"},
		{"propagation zero", sub(`"propagation":300`, `"propagation":0`), "propagation"},
		{"skew negative", sub(`"skew":60`, `"skew":-1`), "skew"},
		{"skew minus zero", sub(`"skew":60`, `"skew":-0`), "skew"},
		{"max_ttl zero", sub(`"max_ttl":600`, `"max_ttl":0`), "max_ttl"},
		{"max_ttl null", sub(`"max_ttl":600`, `"max_ttl":null`), "max_ttl"},
		{"keep overflow", sub(`"keep":86400`, `"keep":9223372036854775807`), "keep"},
		{"keep beyond", sub(`"keep":86400`, `"keep":99999999999999999999`), "keep"},
		{"no keys", doc(`[]`), "at least one key"},
		{"keys null", doc(`null`), "keys"},
		{"keys object", doc(`{}`), "keys"},
		{"revoked missing", sub(`,"revoked":[]`, ``), "revoked"},
		{"revoked number", sub(`"revoked":[]`, `"revoked":[1]`), "revoked[0]"},
		{"revoked twice", sub(`"revoked":[]`, `"revoked":["x","x"]`), "revoked[1]"},
		{"revoked no id", sub(`"revoked":[]`, `"revoked":[""]`), "revoked[0]"},
		{"key null", doc(`[null]`), "keys[0]"},
		{"key unknown member", doc(oneKey(`,"seal_from":1,"kid":1`)), "keys[0]"},
		{"key duplicate member", doc(oneKey(`,"seal_from":1,"seal_from":2`)), "keys[0]"},
		{"id missing", sub(`"id":"a",`, ``), "id"},
		{"id empty", sub(`"id":"a"`, `"id":""`), "id"},
		{"id with newline", sub(`"id":"a"`, `"id":"a\n"`), "id"},
		{"id too long", sub(`"id":"a"`, `"id":"`+long+`"`), "id"},
		{"seal_from missing", doc(oneKey(``)), `keys[0] ("a"): seal_from`},
		{"seal_from negative", doc(oneKey(`,"seal_from":-1`)), "seal_from"},
		{"seal_from fraction", doc(oneKey(`,"seal_from":1.5`)), "seal_from"},
		{"seal_from text", doc(oneKey(`,"seal_from":"1"`)), "seal_from"},
		{"seal_from null", doc(oneKey(`,"seal_from":null`)), "seal_from"},
		{"seal_from year 10000", doc(oneKey(`,"seal_from":253402300800`)), "seal_from"},
		{"open_until null", doc(oneKey(`,"seal_from":1,"open_until":null`)), "open_until"},
		{"secret missing", doc(`[{"id":"a","seal_from":1}]`), `keys[0] ("a"): secret`},
		{"secret short", sub(b64(1), b64(1)[:42]), `keys[0] ("a"): secret has 31 bytes`},
		{"secret padded", sub(b64(1), b64(1)+"="), "base64url"},
		{"secret with newline", sub(b64(1), b64(1)+`\n`), "base64url"},
		{"secret trailing bits", sub(b64(1), b64(1)[:42]+"F"), "base64url"},
		{"secret standard alphabet", sub(b64(1), "+/"+b64(1)[2:]), "base64url"},
		{"secret number", sub(`"`+b64(1)+`"`, "123456789"), "secret must be a string"},
		{"same id", doc(`[{"id":"a","secret":"` + b64(1) + `","seal_from":1},{"id":"a","secret":"` + b64(2) + `","seal_from":1}]`), `keys[1] ("a"): same id as keys[0]`},
		{"same secret", doc(`[{"id":"a","secret":"` + b64(1) + `","seal_from":1},{"id":"b","secret":"` + b64(1) + `","seal_from":1}]`), `keys[1] ("b"): same secret as keys[0] ("a")`},
		{"too large", good + strings.Repeat(" ", 1<<20), "bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := keyring.Parse([]byte(tc.doc))
			if err == nil || r != nil {
				t.Fatalf("accepted: %v", r)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q does not say %q", err, tc.says)
			}
			if !strings.HasPrefix(err.Error(), "keyring: ") || strings.Count(err.Error(), "keyring:") != 1 {
				t.Errorf("error %q is not prefixed once", err)
			}
			for _, leak := range []string{b64(1)[:8], "123456789", long[:8]} {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("error %q repeats input", err)
				}
			}
		})
	}
	if _, err := keyring.Parse([]byte("  " + good + " \n")); err != nil {
		t.Errorf("white space around the document: %v", err)
	}
	// An interop ring may hold a staged key, which has no seal_from.
	r := mustParse(t, strings.Replace(doc(oneKey(``)), `"interop":false`, `"interop":true`, 1))
	if !r.Keys()[0].SealFrom().IsZero() || sealing(t, r, start) != "none" {
		t.Error("a staged key seals")
	}
}

// Whatever the bytes, Parse does not panic, and what it accepts it writes back.
func FuzzParse(f *testing.F) {
	f.Add([]byte(doc(oneKey(`,"seal_from":1`))))
	f.Add([]byte(strings.Replace(doc(oneKey(``)), `"interop":false`, `"interop":true`, 1)))
	f.Add([]byte(`{"version":1,"version":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := keyring.Parse(in)
		if err != nil {
			if r != nil {
				t.Fatal("a ring with an error")
			}
			return
		}
		again, err := keyring.Parse(r.Marshal())
		if err != nil || !bytes.Equal(again.Marshal(), r.Marshal()) {
			t.Fatal("not stable", err)
		}
	})
}

// Any sequence of operations keeps the promises of the schedule.
func TestScheduleInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		real, now := start, start // now is real plus what this writer's clock is ahead, up to skew
		r, err := keyring.NewRing(now, &keyring.RingOptions{
			Keep: time.Duration(rapid.IntRange(-1, 4000).Draw(t, "keep")) * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]bool{r.Keys()[0].ID(): true}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			real = real.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "advance")) * time.Second)
			now = real.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ahead")) * time.Second)
			var c *keyring.Change
			if rapid.IntRange(0, 3).Draw(t, "op") > 0 {
				c, err = r.Rotate(now, 0)
			} else {
				keys := r.Keys()
				c, err = r.Revoke(now, keys[rapid.IntRange(0, len(keys)-1).Draw(t, "which")].ID())
			}
			if err != nil {
				t.Fatal(err)
			}
			n := c.Ring
			if c.Changed() != (n != r) || (n != r && n.Serial() != r.Serial()+1) {
				t.Fatalf("serial %d after %d, changed %v", n.Serial(), r.Serial(), c.Changed())
			}
			if again, err := keyring.Parse(n.Marshal()); err != nil || !bytes.Equal(again.Marshal(), n.Marshal()) {
				t.Fatalf("not a document: %v", err)
			}
			for _, old := range r.Keys() {
				k := n.Key(old.ID())
				until, closed := old.OpenUntil()
				switch {
				case k == nil && !(closed && now.After(until.Add(r.Skew()))) && !(c.Revoked != "" && old.SealFrom().After(now) && (c.Revoked == old.ID() || old.Revoked())):
					t.Fatalf("%v left the document early", old)
				case k == nil:
				case closed:
					if u, _ := k.OpenUntil(); !u.Equal(until) {
						t.Fatalf("open_until of %v moved", old)
					}
				case !k.SealFrom().Equal(old.SealFrom()):
					t.Fatalf("seal_from of %v moved", old)
				}
			}
			if c.Added != "" && c.Revoked == "" && c.SealFrom.Before(now.Add(r.Propagation()+r.Propagation()/3+r.Skew())) {
				t.Fatalf("%s seals before all know it", c.Added)
			}
			if c.Added != "" && used[c.Added] {
				t.Fatalf("id %s used again", c.Added)
			}
			used[c.Added] = true
			r = n
			// From now on some key seals, whatever the clock shows and even if nobody
			// touches the ring again, and what it seals can be read until it expires.
			for at := time.Duration(0); at <= 40*time.Minute; at += 10 * time.Second {
				k, err := r.Sealing(real.Add(at))
				if err != nil {
					t.Fatalf("at %v: %v\n%s", real.Add(at), err, r.Marshal())
				}
				if until, closed := k.OpenUntil(); closed && at > r.Skew() && until.Before(real.Add(at+r.MaxTTL())) {
					t.Fatalf("%v seals at %v what nobody can read later\n%s", k, real.Add(at), r.Marshal())
				}
			}
		}
	})
}
