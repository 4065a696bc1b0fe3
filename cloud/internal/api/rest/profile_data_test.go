package rest_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/cloud/internal/browsers/profiledata"
	"github.com/browser-svc/svc/cloud/internal/platform/secret"
	"github.com/browser-svc/svc/gen/cloudapi"
)

type dataHandlers struct {
	profileHandlers
	rest.ProfileData
}

// slotOf reserves a slot for a session.
func (a *profilesAPI) slotOf(profileID uuid.UUID) uuid.UUID {
	a.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := a.db.Exec(`INSERT INTO license_slots (id, organization_id, profile_id, session_id, machine_id, boot_id, state, reserved_at, lease_until)
		VALUES ($1, $2, $3, $1, 'worker-1', $1, 'reserved', now(), now() + interval '2 minutes')`, id, a.org, profileID)
	must(a.t, err)
	return id
}

func TestProfileData_SaveListActivateDelete(t *testing.T) {
	a := newProfilesAPI(t)
	box, err := secret.New(secret.Key{ID: 1, Bytes: bytes.Repeat([]byte{7}, secret.KeySize)})
	must(t, err)
	a.serve(dataHandlers{
		profileHandlers: a.handlers,
		ProfileData:     rest.ProfileData{Data: &profiledata.Service{DB: a.db, System: a.db, Sealer: box}},
	})
	p := a.create(map[string]any{"name": "P", "browserVersion": 156, "persist": true})
	data := path(p) + "/data"
	session := a.slotOf(p.Id)
	lease := map[string]any{"sessionId": session, "machineId": "worker-1"}
	var previous *uuid.UUID
	var versions []cloudapi.ProfileDataVersion
	for range 2 {
		access := decode[cloudapi.ProfileDataAccess](t, a.do("POST", data+"/lease", a.worker, lease), 200)
		if len(access.Key) != 32 || (access.VersionId == nil) != (previous == nil) {
			t.Errorf("got access to version %v with a key of %d bytes", access.VersionId, len(access.Key))
		}
		version := map[string]any{
			"id": uuid.Must(uuid.NewV7()), "sessionId": session, "machineId": "worker-1", "previousVersionId": previous,
			"sizeBytes": 7, "sentBytes": 5, "keepVersions": 3,
		}
		saved := decode[cloudapi.ProfileDataVersion](t, a.do("POST", data+"/versions", a.worker, version), 200)
		version["id"] = uuid.New()
		a.do("POST", data+"/versions", a.worker, version).want(t, 409, "RESOURCE_CONFLICT")
		versions, previous = append(versions, saved), &saved.Id
	}
	second := map[string]any{"sessionId": a.slotOf(p.Id), "machineId": "worker-2"}
	a.do("POST", data+"/lease", a.worker, second).want(t, 409, "RESOURCE_CONFLICT")
	second["readOnly"] = true
	a.do("POST", data+"/lease", a.worker, second).want(t, 200, "")
	older := data + "/versions/" + versions[0].Id.String()
	a.do("POST", older+"/restore", a.caller, nil).want(t, 409, "RESOURCE_CONFLICT")
	a.do("DELETE", older, a.caller, nil).want(t, 409, "RESOURCE_CONFLICT")
	_, err = a.db.Exec(`UPDATE license_slots SET state = 'released', released_at = now()`)
	must(t, err)
	if now := decode[cloudapi.ProfileDataVersion](t, a.do("POST", older+"/restore", a.caller, nil), 200); now.Id != versions[0].Id || now.State != cloudapi.Current {
		t.Errorf("restored %+v", now)
	}
	for _, by := range []credential{a.caller, a.worker} {
		list := decode[cloudapi.ProfileDataVersionList](t, a.do("GET", data+"/versions", by, nil), 200)
		if len(list.Items) != 2 || list.Items[0].Id != versions[1].Id || list.Items[0].State != cloudapi.Kept || list.Items[1].State != cloudapi.Current {
			t.Errorf("listed %+v", list.Items)
		}
	}
	a.do("DELETE", older, a.caller, nil).want(t, 200, "")
	a.do("DELETE", older, a.caller, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.do("POST", older+"/restore", a.caller, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	other := apiKey(a.organization().String())
	a.do("GET", data+"/versions", other, nil).want(t, 404, "RESOURCE_NOT_FOUND")
	a.do("POST", data+"/lease", other, lease).want(t, 404, "RESOURCE_NOT_FOUND")
}

func TestCheckDeletedProfileData_OfUnknownDirectory(t *testing.T) {
	a := newProfilesAPI(t)
	a.serve(dataHandlers{profileHandlers: a.handlers, ProfileData: rest.ProfileData{Data: &profiledata.Service{DB: a.db, System: a.db}}})
	const known = "0123456789abcdef0123456789abcdef"
	check := func(directory string) bool {
		t.Helper()
		return decode[cloudapi.DeletedProfileData](t, a.do("GET", "/v1/profile-data/"+directory+"/deleted", nil, nil), 200).Deleted
	}
	if check(known) {
		t.Error("an unknown directory is deleted")
	}
	_, err := a.db.Exec(`INSERT INTO deleted_profile_data (directory, organization_id, deleted_at) VALUES ($1, $2, now())`, known, uuid.New())
	must(t, err)
	if !check(known) {
		t.Error("the directory is not deleted")
	}
	a.wrong("GET", "/v1/profile-data/short/deleted", nil, nil).want(t, 400, "VALIDATION_ERROR")
}
