package lab

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed page
var embedded embed.FS

// A file is one file of the page.
type file struct {
	name string // slash-separated, relative to the page
	kind string // Content-Type
	text []byte
}

// types are those of the page's files. The system's table is not asked, since it may
// say anything, and browsers refuse a module of another type.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// files returns all files of the page, in the order of their names.
func files() []file {
	page, err := fs.Sub(embedded, "page")
	if err != nil {
		panic(err) // it is a constant name
	}
	var all []file
	err = fs.WalkDir(page, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(page, name)
		all = append(all, file{name, types[path.Ext(name)], text})
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return all
}
