package webdriver

import (
	"archive/zip"
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

const (
	downloadsEnabled = "se:downloadsEnabled" // the capability
	downloadsPath    = "/se/files"

	maxDownloadRequest = 64 << 10 // bytes
	downloadBuffer     = 64 << 10 // bytes
)

// downloads answers Selenium's commands for the downloads of a session: list, return one,
// delete all.
func (d *driverSession) downloads(c echo.Context) error {
	if !d.managesDownloads {
		return &commandError{http.StatusBadRequest, invalidArgument, fault.Field(downloadsEnabled, "must be true in the capabilities of the session")}
	}
	launch := d.running.Browser.Files()
	launch.Sync(c.Request().Context())
	switch c.Request().Method {
	case http.MethodGet:
		return listDownloads(c, launch)
	case http.MethodDelete:
		return deleteDownloads(c, launch)
	}
	return sendDownload(c, launch)
}

// completeDownloads returns the complete downloads, the oldest first, with the names that
// they would have in one directory.
func completeDownloads(launch *files.Launch) (found []files.File) {
	names := map[string]bool{}
	for _, f := range slices.Backward(launch.List("")) {
		if f.Source == files.Download && f.State == files.Complete {
			f.Name = files.UniqueName(f.Name, names)
			found = append(found, f)
		}
	}
	return found
}

// listedFile is a file as newer clients read it. Times are milliseconds since 1970.
type listedFile struct {
	Name             string `json:"name"`
	CreationTime     int64  `json:"creationTime"`
	LastModifiedTime int64  `json:"lastModifiedTime"`
	Size             int64  `json:"size"`
}

func listDownloads(c echo.Context, launch *files.Launch) error {
	names, listed := []string{}, []listedFile{}
	for _, f := range completeDownloads(launch) {
		modified := f.CreatedAt
		if content, _, err := launch.Open(f.ID); err == nil {
			if info, err := content.Stat(); err == nil {
				modified = info.ModTime()
			}
			_ = content.Close()
		}
		names = append(names, f.Name)
		listed = append(listed, listedFile{f.Name, f.CreatedAt.UnixMilli(), modified.UnixMilli(), f.Size})
	}
	return writeValue(c, map[string]any{"names": names, "files": listed})
}

func deleteDownloads(c echo.Context, launch *files.Launch) error {
	for _, f := range launch.List("") {
		if f.Source != files.Download {
			continue
		}
		if err := launch.Delete(f.ID); err != nil && !errors.Is(err, files.ErrNotFound) {
			return err
		}
	}
	return writeValue(c, nil)
}

// sendDownload answers with one download, in the form that the client can read.
func sendDownload(c echo.Context, launch *files.Launch) error {
	raw, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, maxDownloadRequest))
	if err != nil {
		return readError(err)
	}
	var request struct {
		Name   string `json:"name"`
		Format string `json:"format"`
	}
	if json.Unmarshal(raw, &request) != nil {
		return invalidDownload("name", "must be a string")
	}
	if request.Format != "" && request.Format != echo.MIMEOctetStream {
		return invalidDownload("format", "must be "+echo.MIMEOctetStream+" or omitted")
	}
	found := completeDownloads(launch)
	i := slices.IndexFunc(found, func(f files.File) bool { return f.Name == request.Name })
	if i < 0 {
		return invalidDownload("name", "must be the name of a complete download, as GET "+downloadsPath[1:]+" lists it")
	}
	content, _, err := launch.Open(found[i].ID)
	if err != nil {
		return invalidDownload("name", "must be the name of a file that neither the browser nor a client has removed")
	}
	defer content.Close()
	w := httpd.NewContentWriter(c.Response(), func() {}) // its deadline ends a client that does not read
	defer w.Stop()
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	buffered := bufio.NewWriterSize(w, downloadBuffer)
	if request.Format == "" {
		c.Response().Header().Set(echo.HeaderContentType, "application/json; charset=utf-8")
		err = writePacked(buffered, found[i], content)
	} else {
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMEOctetStream)
		c.Response().Header().Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment", map[string]string{"filename": request.Name}))
		err = copyWhole(buffered, found[i], content)
	}
	if errors.Join(err, buffered.Flush()) != nil {
		panic(http.ErrAbortHandler) // only this shows the client that the file is incomplete
	}
	return nil
}

// writePacked writes the value with a file in a base64-encoded archive, which is never in
// memory as a whole. The file is compressed because Selenium for Java cannot unpack an
// archive of unknown size that is not.
func writePacked(w io.Writer, f files.File, content *os.File) error {
	name, err := json.Marshal(f.Name)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, `{"value":{"filename":`+string(name)+`,"contents":"`); err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	archive := zip.NewWriter(encoder)
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: f.CreatedAt})
	if err != nil {
		return err
	}
	if err := errors.Join(copyWhole(entry, f, content), archive.Close(), encoder.Close()); err != nil {
		return err
	}
	_, err = io.WriteString(w, `"}}`)
	return err
}

// copyWhole copies a file, which the browser may change meanwhile.
func copyWhole(w io.Writer, f files.File, content io.Reader) error {
	_, err := io.CopyN(w, content, f.Size)
	return err
}

func invalidDownload(field, problem string) error {
	return &commandError{http.StatusBadRequest, invalidArgument, fault.Field(field, problem)}
}
