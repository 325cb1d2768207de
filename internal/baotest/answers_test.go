package baotest_test

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/foilmcp/foil/internal/baotest"
)

var record = flag.Bool("record", false, "ask a real server and write testdata/answers.json")

func TestMain(m *testing.M) { flag.Parse(); os.Exit(baotest.Main(m)) }

// TestAnswersAreRecorded asks a real server everything that the stand-in answers from
// its recordings, and finds what they have become: run it with -record then, and look
// at what changed.
func TestAnswersAreRecorded(t *testing.T) {
	live := ask(t)
	if *record {
		doc, err := json.MarshalIndent(live, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/answers.json", append(doc, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := baotest.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range live {
		want := recorded[name]
		if got.Status != want.Status || !within(want.Body, got.Body) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			t.Errorf("%s:\nthe server says %s\nrecorded is     %s", name, a, b)
		}
	}
	for name := range recorded {
		if _, ok := live[name]; !ok {
			t.Errorf("%s is recorded and not asked for", name)
		}
	}
}

// within reports whether all of want is in got. Servers say more from one version to the
// next.
func within(want, got any) bool {
	wantMap, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(want, got)
	}
	gotMap, ok := got.(map[string]any)
	if !ok || (wantMap == nil) != (gotMap == nil) {
		return false
	}
	for name, w := range wantMap {
		if g, ok := gotMap[name]; !ok || !within(w, g) {
			return false
		}
	}
	return true
}

// ask returns the answers of a real server by name.
func ask(t *testing.T) map[string]baotest.Answer {
	srv := baotest.Start(t) // of its own: it is sealed in the end
	all := make(map[string]baotest.Answer)
	as := func(name, token, method, path string, body any, header map[string]string) map[string]any {
		t.Helper()
		code, doc := srv.Request(t, token, method, path, body, header)
		clean, _ := json.Marshal(doc) // a copy, as it is about to be changed
		var copied map[string]any
		_ = json.Unmarshal(clean, &copied)
		all[name] = baotest.Answer{Status: code, Body: baotest.Scrub(copied)}
		return doc
	}
	do := func(name, method, path string, body any) map[string]any {
		t.Helper()
		return as(name, srv.Token, method, path, body, nil)
	}
	type m = map[string]any

	srv.Must(t, "POST", "sys/policies/acl/own", m{"policy": `path "auth/token/*" { capabilities = ["read", "update"] }`})
	roleID, secretID := srv.AppRole(t, []string{"own"}, nil)
	login := as("login", "", "POST", "auth/approle/login", m{"role_id": roleID, "secret_id": secretID}, nil)
	as("login refused", "", "POST", "auth/approle/login", m{"role_id": roleID, "secret_id": "wrong"}, nil)
	token := login["auth"].(m)["client_token"].(string)
	as("lookup self", token, "GET", "auth/token/lookup-self", nil, nil)
	as("renew self", token, "POST", "auth/token/renew-self", m{}, nil)
	as("denied", token, "GET", "sys/mounts", nil, nil)
	as("no content", token, "POST", "auth/token/revoke-self", nil, nil)

	kv := srv.KV(t)
	do("kv none", "GET", kv+"/data/a/b", nil)
	do("kv written", "POST", kv+"/data/a/b", m{"options": m{"cas": 0}, "data": m{"a": "b"}})
	do("kv lost", "POST", kv+"/data/a/b", m{"options": m{"cas": 0}, "data": m{"a": "b"}})
	do("kv read", "GET", kv+"/data/a/b", nil)
	do("kv metadata", "GET", kv+"/metadata/a/b", nil)
	do("kv list", "LIST", kv+"/metadata/a", nil)
	srv.Must(t, "DELETE", kv+"/data/a/b", nil)
	do("kv deleted", "GET", kv+"/data/a/b", nil)

	key := "transit-of-the-test"
	srv.Must(t, "POST", "sys/mounts/"+key, m{"type": "transit"})
	srv.Must(t, "POST", key+"/keys/state", m{"type": "aes256-gcm96"})
	do("transit key", "GET", key+"/keys/state", nil)
	do("transit none", "GET", key+"/keys/other", nil)
	do("transit trim refused", "POST", key+"/keys/state/trim", m{"min_available_version": 1})
	const text, ad = "cGxhaW4=", "YWQ="
	sealed := do("encrypt", "POST", key+"/encrypt/state", m{"batch_input": []m{{"plaintext": text, "associated_data": ad}}})
	token1 := sealed["data"].(m)["batch_results"].([]any)[0].(m)["ciphertext"].(string)
	srv.Must(t, "POST", key+"/keys/state/rotate", m{})
	srv.Must(t, "POST", key+"/keys/state/config", m{"min_decryption_version": 2})
	again := srv.Must(t, "POST", key+"/encrypt/state", m{"batch_input": []m{{"plaintext": text, "associated_data": ad}}})
	token2 := again["data"].(m)["batch_results"].([]any)[0].(m)["ciphertext"].(string)
	good := m{"ciphertext": token2, "associated_data": ad}
	tampered := m{"ciphertext": token2, "associated_data": "b3RoZXI="}
	old := m{"ciphertext": token1, "associated_data": ad}
	next := m{"ciphertext": "vault:v9:" + token2[len("vault:v2:"):], "associated_data": ad}
	do("decrypt", "POST", key+"/decrypt/state", m{"batch_input": []m{good}, "partial_failure_response_code": 200})
	do("decrypt some", "POST", key+"/decrypt/state", m{"batch_input": []m{good, tampered, old, next}, "partial_failure_response_code": 200})
	do("decrypt none", "POST", key+"/decrypt/state", m{"batch_input": []m{tampered}, "partial_failure_response_code": 200})
	do("decrypt no key", "POST", key+"/decrypt/other", m{"batch_input": []m{good}})

	wrap := as("wrap", srv.Token, "POST", "sys/wrapping/wrap", m{"a": "b"}, map[string]string{"X-Vault-Wrap-TTL": "60"})
	claim := m{"token": wrap["wrap_info"].(m)["token"]}
	do("unwrap", "POST", "sys/wrapping/unwrap", claim)
	do("unwrap spent", "POST", "sys/wrapping/unwrap", claim)

	srv.Seal(t)
	do("sealed", "GET", kv+"/data/a/b", nil)
	srv.Unseal(t)
	return all
}
