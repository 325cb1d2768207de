// Package openbao measures what a token costs with OpenBao, on one machine, against a
// real server. It has no code but in its tests, which start bao in dev mode if it is on
// PATH, or use the server at BAO_ADDR:
//
//	cd bench && go test -v ./openbao -run '^TestTable$' -args -table -write ../../docs/openbao.md
package openbao
