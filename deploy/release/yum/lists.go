package yum

import "encoding/xml"

// repomd is repomd.xml, which has the digests of the lists.
type repomd struct {
	XMLName  xml.Name `xml:"repomd"`
	Space    string   `xml:"xmlns,attr"`
	Revision int64    `xml:"revision"`
	Data     []data   `xml:"data"`
}

type data struct {
	Kind     string   `xml:"type,attr"`
	Checksum checksum `xml:"checksum"`
	Open     checksum `xml:"open-checksum"`
	Location location `xml:"location"`
	At       int64    `xml:"timestamp"`
	Size     int      `xml:"size"`
	OpenSize int      `xml:"open-size"`
}

type checksum struct {
	Kind string `xml:"type,attr"`
	IsID string `xml:"pkgid,attr,omitempty"`
	Sum  string `xml:",chardata"`
}

type location struct {
	Href string `xml:"href,attr"`
}

type version struct {
	Epoch   string `xml:"epoch,attr"`
	Version string `xml:"ver,attr"`
	Release string `xml:"rel,attr"`
}

// primary is the list of packages that dnf reads first.
type primary struct {
	XMLName  xml.Name         `xml:"metadata"`
	Space    string           `xml:"xmlns,attr"`
	SpaceRPM string           `xml:"xmlns:rpm,attr"`
	Count    int              `xml:"packages,attr"`
	Packages []primaryPackage `xml:"package"`
}

type primaryPackage struct {
	Kind        string   `xml:"type,attr"`
	Name        string   `xml:"name"`
	Arch        string   `xml:"arch"`
	Version     version  `xml:"version"`
	Checksum    checksum `xml:"checksum"`
	Summary     string   `xml:"summary"`
	Description string   `xml:"description"`
	Packager    string   `xml:"packager"`
	URL         string   `xml:"url"`
	Time        struct {
		File  int `xml:"file,attr"`
		Build int `xml:"build,attr"`
	} `xml:"time"`
	Size struct {
		Package   int64 `xml:"package,attr"`
		Installed int64 `xml:"installed,attr"`
		Archive   int64 `xml:"archive,attr"`
	} `xml:"size"`
	Location location `xml:"location"`
	Format   struct {
		License   string `xml:"rpm:license"`
		Vendor    string `xml:"rpm:vendor"`
		Group     string `xml:"rpm:group"`
		BuildHost string `xml:"rpm:buildhost"`
		Source    string `xml:"rpm:sourcerpm"`
		Range     struct {
			Start int `xml:"start,attr"`
			End   int `xml:"end,attr"`
		} `xml:"rpm:header-range"`
		Provides   []entry      `xml:"rpm:provides>rpm:entry"`
		Requires   []entry      `xml:"rpm:requires>rpm:entry"`
		Conflicts  []entry      `xml:"rpm:conflicts>rpm:entry"`
		Recommends []entry      `xml:"rpm:recommends>rpm:entry"`
		Suggests   []entry      `xml:"rpm:suggests>rpm:entry"`
		Files      []listedFile `xml:"file"`
	} `xml:"format"`
}

// entry is another package that one relates to, in some versions.
type entry struct {
	Name    string `xml:"name,attr"`
	Flags   string `xml:"flags,attr,omitempty"`
	Epoch   string `xml:"epoch,attr,omitempty"`
	Version string `xml:"ver,attr,omitempty"`
	Release string `xml:"rel,attr,omitempty"`
}

type listedFile struct {
	Kind string `xml:"type,attr,omitempty"`
	Path string `xml:",chardata"`
}

// further is a list with more about packages of the first: their files, or their changes.
type further struct {
	XMLName  xml.Name
	Space    string           `xml:"xmlns,attr"`
	Count    int              `xml:"packages,attr"`
	Packages []furtherPackage `xml:"package"`
}

type furtherPackage struct {
	ID      string       `xml:"pkgid,attr"`
	Name    string       `xml:"name,attr"`
	Arch    string       `xml:"arch,attr"`
	Version version      `xml:"version"`
	Files   []listedFile `xml:"file"`
}

func primaryOf(all []*described) primary {
	p := primary{Space: "http://linux.duke.edu/metadata/common", SpaceRPM: "http://linux.duke.edu/metadata/rpm", Count: len(all)}
	for _, d := range all {
		p.Packages = append(p.Packages, d.primary)
	}
	return p
}

func filelistsOf(all []*described) further {
	f := further{XMLName: xml.Name{Local: "filelists"}, Space: "http://linux.duke.edu/metadata/filelists", Count: len(all)}
	for _, d := range all {
		f.Packages = append(f.Packages, furtherPackage{d.sum, d.name, d.arch, d.version, d.files})
	}
	return f
}

// otherOf says of no package what has changed in it: CHANGELOG.md does.
func otherOf(all []*described) further {
	f := further{XMLName: xml.Name{Local: "otherdata"}, Space: "http://linux.duke.edu/metadata/other", Count: len(all)}
	for _, d := range all {
		f.Packages = append(f.Packages, furtherPackage{d.sum, d.name, d.arch, d.version, nil})
	}
	return f
}
