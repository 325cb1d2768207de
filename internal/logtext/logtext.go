// Package logtext makes text that a client chose fit for a log line.
package logtext

import "strings"

// Most is the longest text that Cut leaves whole, in bytes.
const Most = 128

// Cut cuts s to a length that no log line suffers from, at a character.
func Cut(s string) string {
	if len(s) <= Most {
		return s
	}
	return strings.ToValidUTF8(s[:Most], "") + "…"
}
