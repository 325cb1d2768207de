package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands in the texts for operators are commands that there are.
func TestCommandsInDocs(t *testing.T) {
	files := []string{"../../docs/rotation.md", "../../docs/keys.md", "../../docs/openbao.md"}
	deploy, err := filepath.Glob("../../docs/deploy/*")
	if err != nil || len(deploy) < 5 {
		t.Fatal(deploy, err)
	}
	command := regexp.MustCompile(`(?m)(?:^|[\s/])foil (keys|openbao) ([a-z][^\n#|>;]*)`)
	listed := regexp.MustCompile(`\["foil", ("keys"[^\]]*)\]`) // as Kubernetes has it
	seen := 0
	for _, name := range append(files, deploy...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		inFence := !strings.HasSuffix(name, ".md")
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				inFence = !inFence
			} else if inFence && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				lines = append(lines, line)
			}
		}
		body := strings.Join(lines, "")
		var commands [][]string
		for _, m := range command.FindAllStringSubmatch(body, -1) {
			commands = append(commands, append([]string{m[1]}, strings.Fields(m[2])...))
		}
		for _, m := range listed.FindAllStringSubmatch(body, -1) {
			commands = append(commands, strings.Fields(strings.NewReplacer(`"`, "", ",", "").Replace(m[1])))
		}
		for _, args := range commands {
			seen++
			c, rest, err := newRootCmd().Find(args)
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
			if err == nil && !c.Runnable() || err == nil && c.HasSubCommands() && len(c.Flags().Args()) > 0 {
				err = os.ErrInvalid
			}
			if err != nil {
				t.Errorf("%s: foil %s: %v", name, strings.Join(args, " "), err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("found %d commands only", seen)
	}
}

// The environment variables of the examples are those that the client reads.
func TestVariablesOfDeploymentsAreRead(t *testing.T) {
	source, err := os.ReadFile("../../openbao/options.go")
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Glob("../../docs/deploy/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range deploy {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range regexp.MustCompile(`\b(?:BAO|FOIL)_[A-Z0-9_]+`).FindAll(text, -1) {
			seen[string(v)] = true
			if !bytes.Contains(source, []byte(`"`+string(v)+`"`)) {
				t.Errorf("%s sets %s, which is not read", name, v)
			}
		}
	}
	for _, v := range []string{"BAO_ADDR", "BAO_ROLE_ID", "BAO_SECRET_ID_FILE", "BAO_CACERT"} {
		if !seen[v] {
			t.Errorf("no example sets %s", v)
		}
	}
}
