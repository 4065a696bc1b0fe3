package webdriver

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

const (
	maxUpload   = 64 << 20  // of the body, in bytes
	maxUnpacked = 512 << 20 // of the file, in bytes
)

// upload answers Selenium's command for a file of the client: a zip archive with one
// file. It returns the path of the file, for the keys of a file input.
func (d *driverSession) upload(c echo.Context) error {
	d.uploading.Lock()
	defer d.uploading.Unlock()
	raw, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, maxUpload))
	if err != nil {
		return readError(err)
	}
	var request struct {
		File []byte `json:"file"`
	}
	if err := json.Unmarshal(raw, &request); err != nil {
		return invalidUpload("must be a base64-encoded zip archive")
	}
	archive, err := zip.NewReader(bytes.NewReader(request.File), int64(len(request.File)))
	if err != nil {
		return invalidUpload("must be a base64-encoded zip archive")
	}
	if len(archive.File) != 1 || archive.File[0].FileInfo().IsDir() {
		return invalidUpload("must contain exactly one file")
	}
	name := path.Base(strings.ReplaceAll(archive.File[0].Name, `\`, "/"))
	if problem := files.CheckName(name); problem != "" {
		return invalidUpload("must contain a file with a valid name; its name " + problem)
	}
	content, err := archive.File[0].Open()
	if err != nil {
		return invalidUpload("cannot be unpacked")
	}
	defer content.Close()
	limited := &io.LimitedReader{R: content, N: maxUnpacked + 1}
	added, err := d.running.Browser.Files().Add(name, -1, limited)
	switch {
	case limited.N == 0:
		return invalidUpload("is larger than " + strconv.Itoa(maxUnpacked>>20) + " MB when unpacked")
	case errors.Is(err, zip.ErrChecksum), errors.Is(err, zip.ErrFormat):
		return invalidUpload("cannot be unpacked")
	case err != nil:
		return &commandError{http.StatusInternalServerError, unableToUpload, fault.Wrap(err, fault.Internal, "The file could not be stored; the files of the launch may have reached LAUNCH_FILES_MB.")}
	}
	return writeValue(c, added.Path)
}

func invalidUpload(problem string) error {
	return &commandError{http.StatusBadRequest, invalidArgument, fault.Field("file", problem)}
}
