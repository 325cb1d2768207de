package openbao

import (
	"fmt"
	"strings"
)

// splitPath takes "MOUNT/PATH" apart. The first part is the mount. what is for the
// error: "a ring is named MOUNT/PATH".
func splitPath(what, s string) (mount, path string, err error) {
	mount, path, _ = strings.Cut(s, "/")
	for _, part := range strings.Split(s, "/") {
		if !validPart(part) {
			path = ""
		}
	}
	if path == "" {
		return "", "", fmt.Errorf("openbao: %s is named MOUNT/PATH, of letters, digits, dots, dashes and underscores, not %q", what, clean(s))
	}
	return mount, path, nil
}

// validPart keeps to what needs no escaping in a URL or in a policy, where * and +
// mean something.
func validPart(part string) bool {
	if part == "" || part == "." || part == ".." || len(part) > 128 {
		return false
	}
	for _, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

func validMount(mount string) bool { return validPart(mount) }
