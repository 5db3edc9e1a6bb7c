package yum

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sassoftware/go-rpmutils"
)

// described is what the lists of a repository say of a package.
type described struct {
	sum, name, arch string
	version         version
	primary         primaryPackage
	files           []listedFile
}

// describe reads the header of a package.
func describe(file string) (*described, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	header, err := rpmutils.ReadHeader(f)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return nil, err
	}
	d := &described{sum: hex.EncodeToString(sum.Sum(nil))}
	if err := d.read(header); err != nil {
		return nil, err
	}
	d.primary.Location = location{path.Join(Packages, filepath.Base(file))}
	d.primary.Size.Package = size
	return d, nil
}

func (d *described) read(header *rpmutils.RpmHeader) error {
	named, err := header.GetNEVRA()
	if err != nil {
		return err
	}
	d.name, d.arch = named.Name, named.Arch
	d.version = version{Epoch: named.Epoch, Version: named.Version, Release: named.Release}
	if d.files, err = filesOf(header); err != nil {
		return err
	}
	built, err := header.GetInt(rpmutils.BUILDTIME)
	if err != nil {
		return err
	}
	installed, err := header.InstalledSize()
	if err != nil {
		return err
	}
	payload, err := header.PayloadSize()
	if err != nil {
		return err
	}
	text := func(tag int) string { return textOf(header, tag) }
	p := &d.primary
	p.Kind, p.Name, p.Arch, p.Version = "rpm", d.name, d.arch, d.version
	p.Checksum = checksum{"sha256", "YES", d.sum}
	p.Summary, p.Description, p.Packager, p.URL = text(rpmutils.SUMMARY), text(rpmutils.DESCRIPTION), text(rpmutils.PACKAGER), text(rpmutils.URL)
	p.Time.File, p.Time.Build = built, built
	p.Size.Installed, p.Size.Archive = installed, payload
	p.Format.License, p.Format.Vendor, p.Format.Group = text(rpmutils.LICENSE), text(rpmutils.VENDOR), text(rpmutils.GROUP)
	p.Format.BuildHost, p.Format.Source = text(rpmutils.BUILDHOST), text(rpmutils.SOURCERPM)
	span := header.GetRange()
	p.Format.Range.Start, p.Format.Range.End = span.Start, span.End
	for _, relation := range relations {
		entries, err := relation.of(header)
		if err != nil {
			return err
		}
		*relation.in(p) = entries
	}
	for _, file := range d.files {
		if isPrimary(file.Path) {
			p.Format.Files = append(p.Format.Files, file)
		}
	}
	return nil
}

// isPrimary reports whether a file is in the short list, by which packages may depend on it.
func isPrimary(file string) bool {
	return strings.HasPrefix(file, "/etc/") || strings.Contains(file, "bin/") || file == "/usr/lib/sendmail"
}

func textOf(header *rpmutils.RpmHeader, tag int) string {
	if !header.HasTag(tag) {
		return ""
	}
	text, err := header.GetString(tag)
	if err != nil {
		return ""
	}
	return text
}

func filesOf(header *rpmutils.RpmHeader) ([]listedFile, error) {
	files, err := header.GetFiles()
	if err != nil {
		return nil, err
	}
	const folder = 0o040000
	listed := make([]listedFile, 0, len(files))
	for _, file := range files {
		entry := listedFile{Path: file.Name()}
		if file.Mode()&0o170000 == folder {
			entry.Kind = "dir"
		}
		listed = append(listed, entry)
	}
	return listed, nil
}

// relation is one way in which a package relates to others: three tags of its header, and the place
// in the list.
type relation struct {
	name, version, flags int
	in                   func(*primaryPackage) *[]entry
}

// The numbers of weak relations are missing in the library; they are those of rpmtag.h.
var relations = []relation{
	{rpmutils.PROVIDENAME, rpmutils.PROVIDEVERSION, rpmutils.PROVIDEFLAGS, func(p *primaryPackage) *[]entry { return &p.Format.Provides }},
	{rpmutils.REQUIRENAME, rpmutils.REQUIREVERSION, rpmutils.REQUIREFLAGS, func(p *primaryPackage) *[]entry { return &p.Format.Requires }},
	{rpmutils.CONFLICTNAME, rpmutils.CONFLICTVERSION, rpmutils.CONFLICTFLAGS, func(p *primaryPackage) *[]entry { return &p.Format.Conflicts }},
	{5046, 5047, 5048, func(p *primaryPackage) *[]entry { return &p.Format.Recommends }},
	{5049, 5050, 5051, func(p *primaryPackage) *[]entry { return &p.Format.Suggests }},
}

var errUneven = errors.New("its header relates it to others without saying to which versions")

func (r relation) of(header *rpmutils.RpmHeader) ([]entry, error) {
	if !header.HasTag(r.name) {
		return nil, nil
	}
	names, err := header.GetStrings(r.name)
	if err != nil {
		return nil, err
	}
	versions, err := header.GetStrings(r.version)
	if err != nil {
		return nil, err
	}
	flags, err := header.GetUint32s(r.flags)
	if err != nil {
		return nil, err
	}
	if len(names) != len(versions) || len(names) != len(flags) {
		return nil, errUneven
	}
	var all []entry
	for i, name := range names {
		if strings.HasPrefix(name, "rpmlib(") {
			continue // rpm itself provides it
		}
		all = append(all, newEntry(name, versions[i], flags[i]))
	}
	return all, nil
}

// comparisons has the words for flags of a relation to a version: 2 is less, 4 greater, 8 equal.
var comparisons = map[uint32]string{2: "LT", 4: "GT", 8: "EQ", 10: "LE", 12: "GE"}

func newEntry(name, full string, flags uint32) entry {
	compared, ok := comparisons[flags&14]
	if !ok {
		return entry{Name: name}
	}
	e := entry{Name: name, Flags: compared, Epoch: "0"}
	if epoch, rest, ok := strings.Cut(full, ":"); ok {
		e.Epoch, full = epoch, rest
	}
	e.Version, e.Release, _ = strings.Cut(full, "-")
	return e
}
