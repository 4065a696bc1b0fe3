/** The texts of the settings. */
export const texts = {
  createOrganization: "Create organization",
  organizationName: "Name",
};
