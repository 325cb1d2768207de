package canonjson_test

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/canonjson/jsongen"
)

// FuzzPython looks for a document that Python reads differently, with one Python
// process for each worker.
func FuzzPython(f *testing.F) {
	path, err := exec.LookPath("python3")
	if err != nil {
		f.Skip("needs python3 on the PATH; on Debian: apt-get install python3")
	}
	r := rand.New(rand.NewPCG(15, 16))
	for range 30 {
		f.Add(jsongen.Document(r))
	}
	cmd := exec.Command(path, "-I", "-u", "-c", oracle)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	answers := bufio.NewReader(stdout)
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := canonjson.Append(nil, doc, nil)
		if errors.Is(err, canonjson.ErrLimit) {
			return // Python has no such limits but the one on integers
		}
		if err != nil {
			got = []byte("refused")
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintln(stdin, base64.StdEncoding.EncodeToString(doc)); err != nil {
			t.Fatal(err)
		}
		want, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if want = strings.TrimSuffix(want, "\n"); string(got) != want {
			t.Errorf("document %q\n got %.500s\nwant %.500s", doc, got, want)
		}
	})
}
