/** The demo's people. */
import type { Chance } from './chance.ts';
import type { SeedUser } from './seed.ts';

const KITTIWAKE: readonly (readonly [string, string])[] = [
  ['Ingrid', 'Sørensen'],
  ['Tomás', 'Ó Súilleabháin'],
  ['Zoë', 'Łukasiewicz'],
  ['李', '明'],
  ['Nguyễn', 'Thị Hạnh'],
  ['Мария', 'Соколова'],
  ['Óscar', 'Núñez'],
  ['Aïcha', "N'Diaye"],
  ['山田', '花子'],
  ['Jürgen', 'Groß'],
  ['Priya', 'Ramanathan'],
  ['محمد', 'الفارسي'],
  ['Chloé', 'Lefèvre'],
  ['Dmitri', 'Kowalczyk'],
  ['Hana', 'Dvořáková'],
  ['Kwame', 'Mensah'],
  ['Freya', 'Lindqvist'],
  ['Σοφία', 'Παπαδοπούλου'],
  ['Rafael', 'Guimarães'],
  ['Elif', 'Yıldız'],
  ['נועה', 'לוי'],
  ['Owen', 'Prys-Jones'],
  ['Anaïs', 'Vandenberghe'],
  ['Jae-won', 'Park'],
  ['Birgit', 'Østergaard'],
  ['Siobhán', 'McKenna'],
  ['Luka', 'Đorđević'],
  ['Amara', 'Okonkwo'],
  ['Henrik', 'Mäkinen'],
  ['Lucía', 'Fernández-Mora'],
  ['Ravi', 'Chandrasekhar'],
  ['Milena', 'Jovanović'],
  ['Sam', 'Whitcombe'],
  ['Ngozi', 'Adeyemi'],
  ['Pål', 'Haugen'],
  ['Veronika', 'Šimková'],
  ['Abdul', 'Rahman Siddiqui'],
  ['Catarina', 'Vaz'],
  ['Gwendolyn', 'Ap Rhys'],
  ['Ole', 'Bjørnstad'],
  ['王', '秀英'],
  ['Thandiwe', 'Dlamini'],
  ['Matteo', "Dell'Acqua"],
  ['Ewa', 'Wójcik'],
  ['Iñaki', 'Etxeberria'],
  ['Lê', 'Quốc Bảo'],
  ['Annika', 'Ström'],
  ['Farid', 'Benali'],
];

const TERN: readonly (readonly [string, string])[] = [
  ['Mathilde', 'Brandt'],
  ['Piotr', 'Wiśniewski'],
  ['Yuki', '田中'],
  ['Eoin', 'Gallagher'],
  ['Rosa', 'Ibáñez'],
  ['Torben', 'Thomsen'],
];

export interface People {
  /** In order of seniority; the first is the owner. */
  readonly kittiwake: readonly SeedUser[];
  readonly tern: readonly SeedUser[];
}

export function createPeople(chance: Chance): People {
  let id = 0;
  const userOf =
    (domain: string) =>
    ([first_name, last_name]: readonly [string, string], index: number): SeedUser => {
      id += 1;
      const plain = `${first_name} ${last_name}`
        .normalize('NFKD')
        .replaceAll(/[^A-Za-z ]/g, '')
        .trim()
        .toLowerCase()
        .replaceAll(/ +/g, '.');
      return {
        id,
        uuid: chance.uuid(),
        distinct_id: chance.token('', 32),
        first_name,
        last_name,
        email: `${plain.length > 2 ? plain : `team.${index + 1}`}@${domain}`,
        is_email_verified: index % 9 !== 8,
        hedgehog_config:
          index % 4 === 0 ? { color: chance.pick(['sea', 'dusk', 'moss']), enabled: true } : null,
      };
    };
  return {
    kittiwake: KITTIWAKE.map(userOf('kittiwake.example')),
    tern: TERN.map(userOf('tern-soehne.example')),
  };
}
