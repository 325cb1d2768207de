package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/attack"
	"github.com/foilmcp/foil/examples/storagejanitor"
)

// A demoBucket puts objects into the janitor's bucket for each attack and looks
// which of them are left. It is the battery's App.
type demoBucket struct {
	dir string
	n   atomic.Int64
}

// demoAge is how old the objects are; the purge asks for what is over a day old.
const demoAge = 30 * 24 * time.Hour

// Stage fills a prefix of its own, and another one that nothing may touch.
func (b *demoBucket) Stage(_ context.Context, rounds int) (*attack.Scene, error) {
	n := b.n.Add(1)
	prefix, decoy := fmt.Sprintf("logs-%d/", n), fmt.Sprintf("keep-%d/", n)
	objects := 3
	if rounds > 1 {
		objects = storagejanitor.DefaultAskTwiceAbove + 1
	}
	if err := errors.Join(b.fill(prefix, objects), b.fill(decoy, 1)); err != nil {
		return nil, err
	}
	purge := attack.Members{attack.M("prefix", demoJSON(prefix)), attack.M("older_than", `"24h"`)}
	call := func(method, target string, args ...attack.Member) attack.Call {
		return attack.Call{Method: method, Target: target, Arguments: args}
	}
	return &attack.Scene{
		Tool:          call(foil.MethodToolsCall, storagejanitor.PurgeTool, purge...),
		Changed:       "prefix",
		Decoy:         decoy,
		Free:          call(foil.MethodToolsCall, demoTagTool, attack.M("prefix", demoJSON(prefix))),
		Prompt:        call(foil.MethodPromptsGet, demoPrompt, purge...),
		OtherPrompt:   call(foil.MethodPromptsGet, demoOtherPrompt, purge...),
		Resource:      call(foil.MethodResourcesRead, demoResource),
		OtherResource: call(foil.MethodResourcesRead, demoOtherReport),
		Accept:        func(questions json.RawMessage) (string, error) { return demoAccept(questions, objects) },
		Executed:      func() (int, error) { return b.purged(prefix, decoy, objects) },
	}, nil
}

func (b *demoBucket) fill(prefix string, objects int) error {
	dir := filepath.Join(b.dir, prefix)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	old := time.Now().Add(-demoAge)
	for i := range objects {
		name := filepath.Join(dir, fmt.Sprintf("2026-%03d.log", i+1))
		if err := errors.Join(os.WriteFile(name, []byte("a line of a log\n"), 0o600), os.Chtimes(name, old, old)); err != nil {
			return err
		}
	}
	return nil
}

// purged is 1 if all objects are gone and 0 if none is. Anything between, or a
// decoy that is gone, is an error: no purge does that.
func (b *demoBucket) purged(prefix, decoy string, objects int) (int, error) {
	left, err := b.count(prefix)
	if err != nil {
		return 0, err
	}
	kept, err := b.count(decoy)
	switch {
	case err != nil:
		return 0, err
	case kept != 1:
		return 0, errors.New("an object was deleted that nobody had agreed to")
	case left == objects:
		return 0, nil
	case left == 0:
		return 1, nil
	}
	return 0, fmt.Errorf("%d of %d objects are left", left, objects)
}

func (b *demoBucket) count(prefix string) (int, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return len(entries), err
}

// demoAccept fills in the forms: yes where they ask for yes or no, and the
// number of objects where they ask for a number.
func demoAccept(questions json.RawMessage, objects int) (string, error) {
	var qs map[string]struct {
		Params struct {
			Schema struct {
				Properties map[string]struct {
					Type string `json:"type"`
				} `json:"properties"`
			} `json:"requestedSchema"`
		} `json:"params"`
	}
	if err := json.Unmarshal(questions, &qs); err != nil {
		return "", fmt.Errorf("questions: %w", err)
	}
	answers := map[string]any{}
	for key, q := range qs {
		content := map[string]any{}
		for name, field := range q.Params.Schema.Properties {
			switch field.Type {
			case "boolean":
				content[name] = true
			case "integer", "number":
				content[name] = objects
			default:
				return "", fmt.Errorf("the question %q has a field of an unknown type", key)
			}
		}
		answers[key] = map[string]any{"action": "accept", "content": content}
	}
	text, err := json.Marshal(answers)
	return string(text), err
}

func demoJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(text)
}
