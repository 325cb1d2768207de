package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"foil": func() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// Each story in testdata/script is a session at a shell.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"operations": scriptOperations,
			// chomp FILE takes away the line end that a file of an archive has.
			"chomp": func(ts *testscript.TestScript, _ bool, args []string) {
				path := ts.MkAbs(args[0])
				text := ts.ReadFile(path)
				ts.Check(os.WriteFile(path, []byte(strings.TrimSuffix(text, "\n")), 0o600))
			},
		},
	})
}
