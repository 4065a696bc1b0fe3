import { join } from 'node:path';

// statePath returns the file with the cookies of the user who has signed in.
export const statePath = (info) => join(info.project.outputDir, 'user.json');
